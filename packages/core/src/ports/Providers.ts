import { Context, type Effect, type Stream } from "effect"
import type { AudioFormat, BlobCorrupt, BlobUnavailable, JobId } from "../domain/index.ts"
import type { ProviderCallError } from "./ProviderError.ts"
import type { ProviderName } from "./ProviderName.ts"

/** Which call this is. Its interruption must abort the request. */
export interface ProviderCall {
  /** An idempotency token for providers that accept one. */
  readonly jobId: JobId
  /** 1-based. */
  readonly attempt: number
  /** Attempts that have already ended in a provider's failure. */
  readonly failures: number
  /** Attempts that gave the job back without counting as a failure or a lost worker: after a delay a provider asked for, for example. */
  readonly deferrals: number
}

/** Audio to be read, from a blob: open it as often as needed. */
export interface AudioInput {
  readonly format: AudioFormat
  readonly bytes: number
  /** Measured, or declared where the file carries no length. */
  readonly seconds: number
  readonly content: Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt>
}

/** A generated file, whole in memory (speech and images are small). */
export interface GeneratedFile {
  readonly data: Uint8Array
  /** For example `audio/mpeg`. */
  readonly mediaType: string
}

/** What a provider understood. */
export interface Transcript {
  /** Empty where nobody speaks. */
  readonly text: string
  /** How long the provider says the audio is. Where that is longer than what was measured, it counts. */
  readonly seconds?: number | undefined
}

/** An answer in text. */
export interface Reply {
  readonly text: string
  /** As the provider counts them; a live voice turn is charged for these. */
  readonly outputTokens: number
  /** Whether the token limit cut it short. */
  readonly truncated: boolean
}

/** Audio to text. */
export interface TranscriptionProvider {
  readonly transcribe: (
    request: { readonly audio: AudioInput },
    call: ProviderCall,
  ) => Effect.Effect<Transcript, ProviderCallError | BlobUnavailable | BlobCorrupt>
}

/** Text to audio, in a container: raw samples are no file. */
export interface SpeechProvider {
  readonly speak: (
    request: { readonly text: string; readonly voice: string },
    call: ProviderCall,
  ) => Effect.Effect<GeneratedFile, ProviderCallError>
}

/** Text to text. */
export interface ReplyProvider {
  readonly reply: (
    request: { readonly text: string; readonly instructions: string | undefined; readonly maxOutputTokens: number },
    call: ProviderCall,
  ) => Effect.Effect<Reply, ProviderCallError>
}

/** Text to a PNG of 1024 by 1024 pixels. */
export interface ImageProvider {
  readonly generate: (
    request: { readonly prompt: string },
    call: ProviderCall,
  ) => Effect.Effect<GeneratedFile, ProviderCallError>
}

/** A reply that was spoken by who made it. */
export interface Turn extends Reply {
  readonly audio: GeneratedFile
  /** What it understood, where it says so. */
  readonly transcript?: string | undefined
  /** As in `Transcript`. */
  readonly seconds?: number | undefined
}

/** A voice turn in one piece: audio in, text and voice out. Where there is one, it is preferred to the three steps. */
export interface VoiceTurnProvider {
  readonly turn: (
    request: {
      readonly audio: AudioInput
      readonly instructions: string | undefined
      readonly maxOutputTokens: number
      readonly voice: string
    },
    call: ProviderCall,
  ) => Effect.Effect<Turn, ProviderCallError | BlobUnavailable | BlobCorrupt>
}

/** Everything job kinds may ask of the outside. A missing one means that kinds which need it are not served. */
export type ProviderSet = { readonly [Name in ProviderName]?: ProviderPorts[Name] | undefined }

/** The port behind each name. */
export interface ProviderPorts {
  readonly transcription: TranscriptionProvider
  readonly reply: ReplyProvider
  readonly speech: SpeechProvider
  readonly image: ImageProvider
  readonly voiceTurn: VoiceTurnProvider
}

/** What each port is asked for. */
export interface ProviderRequests {
  readonly transcription: Parameters<TranscriptionProvider["transcribe"]>[0]
  readonly reply: Parameters<ReplyProvider["reply"]>[0]
  readonly speech: Parameters<SpeechProvider["speak"]>[0]
  readonly image: Parameters<ImageProvider["generate"]>[0]
  readonly voiceTurn: Parameters<VoiceTurnProvider["turn"]>[0]
}

/** What each port answers. */
export interface ProviderAnswers {
  readonly transcription: Transcript
  readonly reply: Reply
  readonly speech: GeneratedFile
  readonly image: GeneratedFile
  readonly voiceTurn: Turn
}

/** Who serves sandbox jobs and who serves live ones. A sandbox job never reaches `live`. */
export class Providers extends Context.Service<
  Providers,
  {
    readonly sandbox: ProviderSet
    readonly live: ProviderSet
  }
>()("@kiln/core/ports/Providers") {}

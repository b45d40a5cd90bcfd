import { Context, type Effect, Schema, type Stream } from "effect"
import { type AudioFormat, type BlobCorrupt, type BlobUnavailable, errorCodes, type JobId } from "../domain/index.ts"

/** A provider did not deliver. */
export class ProviderFailure extends Schema.TaggedError<ProviderFailure>()("ProviderFailure", {
  /** What the job says if this is the end of it. */
  errorCode: Schema.Literals(errorCodes),
  /** Whether another attempt may succeed. */
  retry: Schema.Boolean,
  /** Milliseconds the provider asked us to wait. */
  retryAfterMs: Schema.optionalKey(Schema.Number),
  /** For the log. Never a prompt, a transcript or a secret. */
  detail: Schema.String,
}) {}

/** Which call this is. Its interruption must abort the request. */
export interface ProviderCall {
  /** An idempotency token for providers that accept one. */
  readonly jobId: JobId
  /** 1-based. */
  readonly attempt: number
  /** Attempts that have already ended in a provider's failure. */
  readonly failures: number
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

export interface TranscriptionProvider {
  readonly transcribe: (
    request: { readonly audio: AudioInput },
    call: ProviderCall,
  ) => Effect.Effect<{ readonly text: string }, ProviderFailure | BlobUnavailable | BlobCorrupt>
}

export interface SpeechProvider {
  readonly speak: (
    request: { readonly text: string; readonly voice: string },
    call: ProviderCall,
  ) => Effect.Effect<GeneratedFile, ProviderFailure>
}

export interface ReplyProvider {
  readonly reply: (
    request: { readonly text: string; readonly instructions: string | undefined; readonly maxOutputTokens: number },
    call: ProviderCall,
  ) => Effect.Effect<
    { readonly text: string; readonly outputTokens: number; readonly truncated: boolean },
    ProviderFailure
  >
}

export interface ImageProvider {
  readonly generate: (
    request: { readonly prompt: string },
    call: ProviderCall,
  ) => Effect.Effect<GeneratedFile, ProviderFailure>
}

/** Everything job kinds may ask of the outside. A missing one means that kinds which need it are not served. */
export interface ProviderSet {
  readonly transcription?: TranscriptionProvider | undefined
  readonly speech?: SpeechProvider | undefined
  readonly reply?: ReplyProvider | undefined
  readonly image?: ImageProvider | undefined
}
export type ProviderName = keyof ProviderSet

/** Who serves sandbox jobs and who serves live ones. A sandbox job never reaches `live`. */
export class Providers extends Context.Service<
  Providers,
  {
    readonly sandbox: ProviderSet
    readonly live: ProviderSet
  }
>()("@kiln/core/ports/Providers") {}

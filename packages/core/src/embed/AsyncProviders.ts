import type { AudioFormat } from "../domain/AudioFormat.ts"
import type { JobId } from "../domain/Ids.ts"
import type { ProviderName } from "../ports/ProviderName.ts"

/** Which call this is, and when it is no longer wanted. */
export interface AsyncCall {
  /** An idempotency token for providers that accept one. */
  readonly jobId: JobId
  /** 1-based. */
  readonly attempt: number
  /** Attempts that have already ended in a provider's failure. */
  readonly failures: number
  /** Aborted when the job is lost or the process stops. Give it to `fetch`. */
  readonly signal: AbortSignal
}

/** Audio for code without Effect, whole in memory: at most 25 MiB. */
export interface AsyncAudio {
  readonly format: AudioFormat
  readonly bytes: number
  /** Measured, or declared where the file carries no length. */
  readonly seconds: number
  readonly data: Uint8Array
}

/** A generated file, whole in memory. */
export interface AsyncFile {
  readonly data: Uint8Array
  /** For example `audio/mpeg`. */
  readonly mediaType: string
}

/** An answer in text. */
export interface AsyncReply {
  readonly text: string
  /** As the provider counts them; a live voice turn is charged for these. */
  readonly outputTokens: number
  /** Whether the token limit cut it short. */
  readonly truncated: boolean
}

/** What each provider is asked for. */
export interface AsyncRequests {
  readonly transcription: { readonly audio: AsyncAudio }
  readonly reply: {
    readonly text: string
    readonly instructions: string | undefined
    readonly maxOutputTokens: number
  }
  readonly speech: { readonly text: string; readonly voice: string }
  readonly image: { readonly prompt: string }
  readonly voiceTurn: {
    readonly audio: AsyncAudio
    readonly instructions: string | undefined
    readonly maxOutputTokens: number
    readonly voice: string
  }
}

/** What each provider answers. */
export interface AsyncAnswers {
  /** `text` is empty where nobody speaks; `seconds` is how long the provider says the audio is, where it says so. */
  readonly transcription: { readonly text: string; readonly seconds?: number | undefined }
  readonly reply: AsyncReply
  /** In a container: raw samples are no file. */
  readonly speech: AsyncFile
  /** A PNG of 1024 by 1024 pixels. */
  readonly image: AsyncFile
  readonly voiceTurn: AsyncReply & {
    readonly audio: AsyncFile
    /** What it understood, where it says so. */
    readonly transcript?: string | undefined
    readonly seconds?: number | undefined
  }
}

/** A provider as a function that returns a promise. */
export type AsyncProvider<Name extends ProviderName> = (
  request: AsyncRequests[Name],
  call: AsyncCall,
) => Promise<AsyncAnswers[Name]>

/** Providers as functions that return promises, each under the name of its port. */
export type AsyncProviders = { readonly [Name in ProviderName]?: AsyncProvider<Name> }

/** The verb of each provider's port, by which a provider that was made elsewhere (`openAiProviders`, `sandboxProviders`) is known. */
export interface ProviderVerbs {
  readonly transcription: "transcribe"
  readonly reply: "reply"
  readonly speech: "speak"
  readonly image: "generate"
  readonly voiceTurn: "turn"
}

/** A provider that was made elsewhere. */
export type MadeProvider<Name extends ProviderName> = {
  readonly [Verb in ProviderVerbs[Name]]: (...request: ReadonlyArray<never>) => unknown
}

/** Whoever serves a port: a function, or one that was made elsewhere. */
export type AnyProvider<Name extends ProviderName> = AsyncProvider<Name> | MadeProvider<Name>

import type { JobId } from "../domain/Ids.ts"
import type { AnswerOf, NameOf, ProviderName, ProviderRef, RequestOf } from "../providers/builtInPorts.ts"
import type { FileBody } from "./FileBody.ts"
import type { AudioDetails } from "../providers/transcription.ts"

/** Identifies a call, with a signal that aborts when it is no longer needed. */
export interface AsyncCall {
  /** An idempotency token for providers that accept one. */
  readonly jobId: JobId
  /** 1-based. */
  readonly attempt: number
  /** Earlier attempts that ended with a provider failure. */
  readonly failures: number
  /** Aborted on a timeout, when the lease is lost and when the process stops. Pass it to `fetch`. */
  readonly signal: AbortSignal
}

/** An audio file, whole in memory: at most 25 MiB. */
export interface AsyncAudio extends AudioDetails {
  readonly data: Uint8Array
}

/** A file for an attempt to store. */
export interface AsyncFile {
  /** The content, in memory or as a stream, for example a Node.js `Readable`. A stream is written piece by piece, and read once. */
  readonly data: FileBody
  /** For example `audio/mpeg`. */
  readonly mediaType: string
}

/** The request that a provider that returns a promise receives. */
export type AsyncRequest<Ref extends ProviderRef> = {
  readonly [Field in keyof RequestOf<Ref>]: Field extends "audio" ? AsyncAudio : RequestOf<Ref>[Field]
}

/** A provider as a function that returns a promise. */
export type AsyncProvider<Ref extends ProviderRef> = (
  request: AsyncRequest<Ref>,
  call: AsyncCall,
) => Promise<AnswerOf<Ref>>

/** Built-in providers as functions that return promises, under the names of their ports. */
export type AsyncProviders = { readonly [Name in ProviderName]?: AsyncProvider<Name> }

/** A provider from a package such as `openAiProviders` or `sandboxProviders`, which returns an Effect. */
export interface MadeProvider<Ref extends ProviderRef> {
  readonly "~provider": NameOf<Ref>
}

/** A provider of a port, in either style. */
export type AnyProvider<Ref extends ProviderRef> = AsyncProvider<Ref> | MadeProvider<Ref>

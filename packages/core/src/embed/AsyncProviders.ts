import type { JobId } from "../domain/Ids.ts"
import type { AnswerOf, NameOf, ProviderName, ProviderRef, RequestOf } from "../providers/builtInPorts.ts"
import {
  providerBroken as broken,
  resultInvalid as invalid,
  providerRefused as refused,
  providerUnavailable as unavailable,
} from "../providers/ProviderError.ts"
import type { AudioDetails } from "../providers/transcription.ts"

/** The content of a file. */
export type FileBody = Uint8Array | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

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

/** Type-checks built-in providers that return promises: `asyncProviders({ speech: async (request, call) => … })`. */
export const asyncProviders = <Providers extends AsyncProviders>(
  providers: Providers & { readonly [Name in Exclude<keyof Providers, ProviderName>]: never },
): Providers => providers

/** Thrown by a provider for a failure that may pass: a network error, a busy server. `retryAfterMs` is the delay it asked for. */
export const providerUnavailable = (detail: string, retryAfterMs?: number): Error => unavailable(detail, retryAfterMs)
/** Thrown by a provider, or by the check of a port, for an invalid answer. Retried. */
export const resultInvalid = (detail: string): Error => invalid(detail)
/**
 * Thrown by a provider that refuses a request permanently, because of its content (`content`) or for another reason (`input`).
 */
export const providerRefused = (what: "content" | "input", detail: string): Error => refused(what, detail)
/** Thrown by a provider that works for no job until its operator fixes it. It is paused, and jobs wait at no cost. */
export const providerBroken = (reason: "configuration" | "quota", detail: string, retryAfterMs?: number): Error =>
  broken(reason, detail, retryAfterMs)

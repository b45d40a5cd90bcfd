import type { AudioFormat } from "@kiln/core/domain"
import type { AudioInput, ProviderCall, ProviderError, ProviderSet } from "@kiln/core/providers"
import { Effect, Result, Stream } from "effect"

export const call: ProviderCall = { jobId: "job_0123456789abcdefghjkmnpqrs", attempt: 1, failures: 0, deferrals: 0 }

export const audio = (format: AudioFormat, bytes: Uint8Array, pieces = 1): AudioInput => ({
  format,
  bytes: bytes.length,
  seconds: 1,
  content: Stream.fromIterable(
    Array.from({ length: pieces }, (_, n) =>
      bytes.subarray(Math.floor((n * bytes.length) / pieces), Math.floor(((n + 1) * bytes.length) / pieces)),
    ),
  ),
})

/** All secrets in the requests below. */
export const canaries = {
  key: "sk-canary-4Fq9",
  text: "canary-text-Zm31",
  instructions: "canary-instructions-Xk7",
} as const

/** A request of each kind. */
export const requests = {
  transcription: (set: ProviderSet) => set.transcription!({ audio: audio("wav", Uint8Array.of(1, 2)) }, call),
  speech: (set: ProviderSet) => set.speech!({ text: canaries.text, voice: "alloy" }, call),
  reply: (set: ProviderSet) =>
    set.reply!({ text: canaries.text, instructions: canaries.instructions, maxOutputTokens: 50 }, call),
  image: (set: ProviderSet) => set.image!({ prompt: canaries.text }, call),
} as const
export type Port = keyof typeof requests
export const ports = Object.keys(requests) as ReadonlyArray<Port>

/** Sends a request and returns only its failure. */
export const askPort = (
  port: Port,
  set: ProviderSet,
): Effect.Effect<unknown, Effect.Error<ReturnType<(typeof requests)[Port]>>> => requests[port](set)

export const failureOf = async <A, E>(effect: Effect.Effect<A, E>): Promise<E> => {
  const result = await Effect.runPromise(Effect.result(effect))
  if (Result.isSuccess(result)) throw new Error(`it succeeded: ${JSON.stringify(result.success)}`)
  return result.failure
}

/** Returns the class of an error in a few words: `retry provider_unavailable`, `refuse content_rejected`, `broken quota`. */
export const classOf = (
  error: ProviderError | { readonly _tag: "BlobUnavailable" | "BlobCorrupt" | "ProviderPostponed" },
): string =>
  error._tag === "ProviderBroken"
    ? `broken ${error.reason}`
    : error._tag === "ProviderFailure"
      ? `${error.retry ? "retry" : "refuse"} ${error.errorCode}`
      : error._tag

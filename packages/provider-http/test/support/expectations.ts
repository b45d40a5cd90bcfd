import type { ProviderError } from "@kiln/core/providers"
import { Effect, Result } from "effect"

/** Returns the failure of an effect; throws if it succeeds. */
export const failureOf = async <A, E>(effect: Effect.Effect<A, E>): Promise<E> => {
  const result = await Effect.runPromise(Effect.result(effect))
  if (Result.isSuccess(result)) throw new Error("it succeeded")
  return result.failure
}

/** Returns the class of an error in a few words: `retry provider_unavailable`, `refuse content_rejected`, `broken quota`. */
export const classOf = (error: ProviderError): string =>
  error._tag === "ProviderBroken" ? `broken ${error.reason}` : `${error.retry ? "retry" : "refuse"} ${error.errorCode}`

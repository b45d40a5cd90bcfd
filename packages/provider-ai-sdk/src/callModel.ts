import type { ProviderError } from "@kiln/core/ports"
import { Clock, Effect } from "effect"
import { toProviderError } from "./toProviderError.ts"

/** What every call says: the engine repeats, nobody else, and nobody listens in. */
export const callDefaults = { maxRetries: 0, telemetry: { isEnabled: false } } as const

/** One call of the AI SDK. Interruption aborts the request; whatever it throws, `read` included, becomes a provider's error. */
export const callModel = <A, B>(
  call: (abortSignal: AbortSignal) => PromiseLike<A>,
  read: (result: A) => Effect.Effect<B, ProviderError>,
): Effect.Effect<B, ProviderError> =>
  Effect.flatMap(Clock.currentTimeMillis, (nowMs) =>
    Effect.tryPromise({
      try: async (signal) => read(await call(signal)),
      catch: (error) => toProviderError(error, nowMs),
    }),
  ).pipe(Effect.flatten)

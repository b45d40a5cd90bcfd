import type { ProviderError } from "@kiln/core/providers"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { toProviderError } from "./toProviderError.ts"

/** Options of every call: only the engine retries, and telemetry is off. */
export const callDefaults = { maxRetries: 0, telemetry: { isEnabled: false } } as const

/** Calls the AI SDK. Interruption aborts the request; errors thrown by the SDK or by `read` become provider errors. */
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

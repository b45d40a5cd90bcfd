import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** Milliseconds of the engine's monotonic clock, for durations within this process. */
export const monotonicMs: Effect.Effect<number> = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/**
 * Milliseconds of the monotonic clock, for durations within this process. The clock is never adjusted, and its values mean
 * nothing in other processes.
 */
export const monotonicMs: Effect.Effect<number> = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

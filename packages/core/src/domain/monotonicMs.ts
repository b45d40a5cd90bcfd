import { Clock, Effect } from "effect"

/** Milliseconds of the monotonic clock, for durations within this process. Nobody sets that clock, and its values mean nothing elsewhere. */
export const monotonicMs: Effect.Effect<number> = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

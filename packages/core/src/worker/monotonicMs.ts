import { Clock, Effect } from "effect"

/** Milliseconds by the monotonic clock, for durations within this process: nobody sets it, and its numbers mean nothing elsewhere. */
export const monotonicMs: Effect.Effect<number> = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

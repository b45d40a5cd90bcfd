import { type Clock, Duration, Effect } from "effect"

/** A manually advanced clock. Each process has its own; a clock that lags represents a process that was stopped for a while. */
export interface VirtualClock {
  readonly clock: Clock.Clock
  /** Moves on, and wakes who slept until then, in the order of their times. */
  readonly advance: (byMs: number) => void
}

/** Some day in 2027, a whole second. */
const startOfTimeMs = 1_800_000_000_000

interface Sleeper {
  readonly until: number
  readonly wake: () => void
}

export const makeVirtualClock = (): VirtualClock => {
  let nowMs = startOfTimeMs
  const sleepers = new Set<Sleeper>()
  const nanos = () => BigInt(nowMs) * 1_000_000n
  const firstDue = (until: number): Sleeper | undefined => {
    let first: Sleeper | undefined
    for (const sleeper of sleepers)
      if (sleeper.until <= until && (first === undefined || sleeper.until < first.until)) first = sleeper
    return first
  }
  return {
    clock: {
      currentTimeMillisUnsafe: () => nowMs,
      currentTimeMillis: Effect.sync(() => nowMs),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: nanos,
      monotonicTimeNanos: Effect.sync(nanos),
      sleep: (duration) =>
        Effect.callback<void>((resume) => {
          const ms = Duration.toMillis(duration)
          if (ms <= 0) return resume(Effect.void)
          const sleeper = { until: nowMs + ms, wake: () => resume(Effect.void) }
          sleepers.add(sleeper)
          return Effect.sync(() => void sleepers.delete(sleeper))
        }),
    },
    advance: (byMs) => {
      const until = nowMs + byMs
      for (let due = firstDue(until); due !== undefined; due = firstDue(until)) {
        nowMs = Math.max(nowMs, due.until)
        sleepers.delete(due)
        due.wake()
      }
      nowMs = until
    },
  }
}

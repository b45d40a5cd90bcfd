import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scheduler from "effect/Scheduler"

/** Virtual time, which advances only on demand. */
export interface VirtualTime {
  /** The clock, for everything inside an engine. */
  readonly references: Layer.Layer<never>
  /** Unix milliseconds. */
  readonly now: () => number
  /** Returns when the next sleeping fiber will wake; `undefined` if no fiber is sleeping. */
  readonly nextAt: () => number | undefined
  /**
   * Advances to a time, never back. Sleeping fibers wake one after the other, each at its time, and the next one only when all
   * work that follows is done, except for work that waits for something outside of the engine.
   */
  readonly moveTo: (unixMs: number) => Promise<void>
}

interface Sleeper {
  readonly until: number
  readonly wake: () => void
}

export const makeVirtualTime = (startMs: number): VirtualTime => {
  let nowMs = startMs
  // In the order in which they went to sleep, which decides among those of one time.
  const sleepers = new Set<Sleeper>()
  const { scheduler, settled } = watchedScheduler()
  let moving: Promise<void> = Promise.resolve()

  const first = (): Sleeper | undefined => {
    let next: Sleeper | undefined
    for (const sleeper of sleepers) if (next === undefined || sleeper.until < next.until) next = sleeper
    return next
  }
  const move = async (to: number) => {
    await settled()
    for (let next = first(); next !== undefined && next.until <= to; next = first()) {
      nowMs = Math.max(nowMs, next.until)
      sleepers.delete(next)
      next.wake()
      await settled()
    }
    nowMs = Math.max(nowMs, to)
  }
  const sleep = (duration: Duration.Duration) =>
    Effect.callback<void>((resume) => {
      const sleeper = {
        until: nowMs + Math.max(0, Math.ceil(Duration.toMillis(duration))),
        wake: () => resume(Effect.void),
      }
      if (sleeper.until <= nowMs) return resume(Effect.void)
      sleepers.add(sleeper)
      return Effect.sync(() => void sleepers.delete(sleeper))
    })

  return {
    references: Layer.succeedContext(
      Context.add(
        Context.make(
          Clock.Clock,
          clockAt(() => nowMs, sleep),
        ),
        Scheduler.Scheduler,
        scheduler,
      ),
    ),
    now: () => nowMs,
    nextAt: () => first()?.until,
    // Serialized across all callers.
    moveTo: (unixMs) => (moving = moving.then(() => move(unixMs))),
  }
}

const clockAt = (now: () => number, sleep: Clock.Clock["sleep"]): Clock.Clock => {
  const nanos = () => BigInt(now()) * 1_000_000n
  return {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep,
  }
}

/** Read before a test can replace it. */
const { setImmediate } = globalThis
const turn = () => new Promise<void>((resolve) => setImmediate(() => resolve()))

/** Consecutive idle turns after which no more work is expected. */
const quietTurns = 2
/** Maximum number of turns to wait for work that does not end. */
const maxTurns = 10_000

/** A scheduler that reports when all fibers are waiting for something other than their turn. */
const watchedScheduler = (): {
  readonly scheduler: Scheduler.Scheduler
  readonly settled: () => Promise<void>
} => {
  const inner = new Scheduler.MixedScheduler()
  let scheduled = 0
  return {
    scheduler: {
      executionMode: inner.executionMode,
      shouldYield: (fiber) => inner.shouldYield(fiber),
      makeDispatcher: () => {
        const dispatcher = inner.makeDispatcher()
        return {
          scheduleTask: (task, priority) => {
            scheduled++
            dispatcher.scheduleTask(() => {
              scheduled--
              task()
            }, priority)
          },
          flush: () => dispatcher.flush(),
        }
      },
    },
    settled: async () => {
      for (let quiet = 0, turns = 0; quiet < quietTurns && turns < maxTurns; turns++) {
        await turn()
        quiet = scheduled === 0 ? quiet + 1 : 0
      }
    },
  }
}

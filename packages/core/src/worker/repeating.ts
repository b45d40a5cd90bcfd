import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import { monotonicMs } from "../domain/monotonicMs.ts"

/** The share of a pause that is random, so that processes started together drift apart. */
const jitter = 0.1

/** Pauses between polls: each is twice as long as the one before, until a poll finds something. */
export const growingPauses = (shortestMs: number) => {
  let nextMs = shortestMs
  return {
    /** Starts again with the shortest pause. */
    reset: () => {
      nextMs = shortestMs
    },
    /** Returns the next pause in milliseconds, with jitter: at most `longestMs`, or the shortest pause if that is longer. */
    next: (longestMs: number): Effect.Effect<number> =>
      Effect.map(Random.next, (chance) => {
        const pauseMs = Math.min(nextMs, Math.max(shortestMs, longestMs))
        nextMs = 2 * pauseMs
        return pauseMs * (1 - jitter * chance)
      }),
  }
}

/** Returns a random first pause of at most `withinMs`, so that processes started together do not run in step. */
export const firstPause = (withinMs: number): Effect.Effect<number> =>
  Effect.map(Random.next, (chance) => withinMs * chance)

/** The retry schedule of writes that must not be lost while a store is unavailable: from 50 ms up to every second. */
export const retrying = Schedule.jittered(
  Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")]),
)

/** Interval between log lines during an outage, so that an hour's outage does not fill the log. */
const repeatEveryMs = 60_000

/** Logs the outage of a repeated task: when it starts, once a minute while it lasts, and when it is over. */
export const makeOutageLog = (what: string) => {
  let beganAt: number | undefined
  let loggedAt = -Infinity
  return {
    failed: (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
      Effect.flatMap(monotonicMs, (now) => {
        beganAt ??= now
        if (now - loggedAt < repeatEveryMs) return Effect.void
        loggedAt = now
        return Effect.logWarning(`${what}: failed; trying again`, cause)
      }),
    worked: Effect.suspend(() => {
      if (beganAt === undefined) return Effect.void
      const since = beganAt
      beganAt = undefined
      loggedAt = -Infinity
      return Effect.flatMap(monotonicMs, (now) =>
        Effect.logInfo(`${what}: works again, after ${Math.round((now - since) / 1_000)} s`),
      )
    }),
  }
}

/** How long one step should occupy the store: jobs that are created meanwhile wait for it. */
const stepMs = 5
/**
 * The pause after a step, in lengths of the step. SQLite blocks its process with each step, and now and then for milliseconds, to copy the log
 * into the database. After pauses of one length, half of all submissions waited for a step.
 */
const pauseLengths = 3
/** Sizes of a step, in records. Smaller ones would cost more for the commit than for the records. The first is of the least. */
const leastSize = 20
const mostSize = 100

/** Returns the size of the step after one that took this long. */
export const nextSize = (size: number, tookMs: number): number =>
  Math.floor(Math.min(mostSize, 2 * size, Math.max(leastSize, (size * stepMs) / Math.max(tookMs, 1e-3))))

/**
 * Repeats a step of a store, which deals with up to a number of records, until it finds fewer. Three quarters of the time are left to
 * others. `after` does the rest of the work with what a step returned, and does not count as the store's time. Returns the number of records.
 */
export const inPacedSteps = <A, E, R, E2 = never, R2 = never>(
  step: (limit: number) => Effect.Effect<A, E, R>,
  countOf: (result: A) => number,
  after: (result: A) => Effect.Effect<void, E2, R2> = () => Effect.void,
): Effect.Effect<number, E | E2, R | R2> =>
  Effect.gen(function* () {
    let size = leastSize
    for (let found = 0; ;) {
      const beganAt = yield* monotonicMs
      const result = yield* step(size)
      const tookMs = (yield* monotonicMs) - beganAt
      yield* after(result)
      const count = countOf(result)
      found += count
      if (count < size) return found
      size = nextSize(size, tookMs)
      yield* tookMs > 0 ? Effect.sleep(pauseLengths * tookMs) : Effect.yieldNow
    }
  })

/** Repeats a step that returns how many records it changed. */
export const inSteps = <E, R>(step: (limit: number) => Effect.Effect<number, E, R>): Effect.Effect<number, E, R> =>
  inPacedSteps(step, (count) => count)

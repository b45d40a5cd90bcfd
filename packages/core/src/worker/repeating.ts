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
/** Sizes of a step, in records. */
const sizes = [20, 50, 100] as const
/**
 * A larger step is worth its time if a record of it takes at most this share of the time in a smaller one: most of a step is then spent on the way
 * to a database server or on the commit, and small steps would remove fewer records than a busy installation finishes.
 */
const worthwhile = 0.7
/** What is remembered of the sizes next to the present one shrinks by this factor with each step, so that they are tried again after a while. */
const forgetting = 0.98

/**
 * Chooses sizes of steps: the largest that takes at most `stepMs`, or a larger one that is worth its time. Starts with the smallest and learns from
 * each step.
 */
export const stepSizes = () => {
  let at = 0
  /** Milliseconds for a record of a step of each size, of those that were tried. */
  const msOfRecord: Array<number> = []
  const isWorthwhile = (index: number): boolean =>
    (msOfRecord[index] ?? 0) <= worthwhile * (msOfRecord[index - 1] ?? Infinity)
  const isShort = (index: number): boolean => (msOfRecord[index] ?? 0) * (sizes[index] ?? Infinity) <= stepMs
  return {
    size: (): number => sizes[at] ?? sizes[0],
    /** Learns how long a step of this size took. */
    took: (ms: number): void => {
      const each = ms / (sizes[at] ?? sizes[0])
      msOfRecord[at] = (each + (msOfRecord[at] ?? each)) / 2
      for (const next of [at - 1, at + 1]) {
        const known = msOfRecord[next]
        if (known !== undefined) msOfRecord[next] = known * forgetting
      }
      if (at > 0 && !isShort(at) && !isWorthwhile(at)) at -= 1
      else if (at + 1 < sizes.length && (isShort(at + 1) || isWorthwhile(at + 1))) at += 1
    },
  }
}

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
    const sizing = stepSizes()
    for (let found = 0; ;) {
      const size = sizing.size()
      const beganAt = yield* monotonicMs
      const result = yield* step(size)
      const tookMs = (yield* monotonicMs) - beganAt
      yield* after(result)
      const count = countOf(result)
      found += count
      if (count < size) return found
      sizing.took(tookMs)
      yield* tookMs > 0 ? Effect.sleep(pauseLengths * tookMs) : Effect.yieldNow
    }
  })

/** Repeats a step that returns how many records it changed. */
export const inSteps = <E, R>(step: (limit: number) => Effect.Effect<number, E, R>): Effect.Effect<number, E, R> =>
  inPacedSteps(step, (count) => count)

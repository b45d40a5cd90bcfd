import * as Effect from "effect/Effect"
import { monotonicMs } from "../../domain/monotonicMs.ts"

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

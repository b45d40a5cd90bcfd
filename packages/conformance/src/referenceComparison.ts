import { isDeepStrictEqual } from "node:util"
import { expect, test } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import fc from "fast-check"
import type { Stores } from "./Check.ts"
import { directoryOperations } from "./comparison/directoryOperations.ts"
import { emptyHistory } from "./comparison/History.ts"
import { expectPromises } from "./comparison/invariants.ts"
import { jobOperations } from "./comparison/jobOperations.ts"
import { observe, presentJobs, seenFrom } from "./comparison/observe.ts"
import type { Operation } from "./comparison/Operation.ts"
import { otherOperations, reopen } from "./comparison/otherOperations.ts"
import { type Compared, openWorld } from "./comparison/World.ts"

/** Options of the search for a difference. */
export interface Search {
  /** Random histories to perform. */
  readonly runs: number
  /** Repeats a reported failure. */
  readonly seed?: number | undefined
  /** `false` reports the first history that differs instead of looking for the smallest. */
  readonly shrink?: boolean | undefined
  /** The reference, by default the memory stores. With the store itself, only the promises are checked. */
  readonly reference?: Layer.Layer<Stores, unknown> | undefined
  /** Told of moves, zombies and interruptions that histories meet. */
  readonly sighted?: ((what: string) => void) | undefined
}

/**
 * A store to compare. With a `place`, histories close it and open it again in their middle; if it
 * declares `multiProcess`, their steps alternate between two openings, and each is looked at through
 * the one that did not act.
 */
export type Comparison = Compared &
  Search & {
    /** Appears in the name of the test. */
    readonly name: string
  }

const performHistory = Effect.fnUntraced(function* (
  operations: ReadonlyArray<Operation>,
  comparison: Compared & Search,
): Effect.fn.Return<void, unknown, Scope.Scope> {
  const world = yield* openWorld(comparison, comparison.reference)
  const history = emptyHistory(comparison.sighted ?? (() => undefined))
  for (const operation of operations) {
    yield* operation.perform(history, world)
    const expected = yield* Effect.provideContext(observe(history), world.reference)
    const present = presentJobs(expected)
    expectPromises(operation.name, history, expected, present, yield* Clock.currentTimeMillis)
    const observed = yield* Effect.provideContext(observe(history), world.watcher())
    // Most are the same in every detail, which Node finds out several times as fast as a matcher that could say what differs.
    if (!isDeepStrictEqual(observed, expected)) expect(observed, operation.name).toEqual(expected)
    history.present = present
    history.seen = seenFrom(expected, history)
  }
})

/**
 * Performs the same random histories, in virtual time, on the memory store and on another, and
 * compares every answer and everything readable after each step; the moves of all jobs are checked
 * by the table of transitions besides. Returns the smallest history found on which they differ, with
 * seed and path to repeat it; `undefined` if the stores agree.
 */
export const findDifference = async (comparison: Compared & Search): Promise<string | undefined> => {
  const { place, runs, seed, shrink = true } = comparison
  const operations = [
    ...jobOperations,
    ...directoryOperations,
    ...otherOperations,
    ...(place === undefined ? [] : [reopen]),
  ]
  const histories = fc.array(fc.oneof(...operations), { minLength: 1, maxLength: 150, size: "max" })
  const property = fc.asyncProperty(histories, (history) =>
    Effect.runPromise(performHistory(history, comparison).pipe(Effect.scoped, Effect.provide(TestClock.layer()))),
  )
  const details = await fc.check(property, {
    numRuns: runs,
    endOnFailure: !shrink,
    // A smaller history is not worth the report that a test out of time does not make.
    interruptAfterTimeLimit: limitMs(runs),
    markInterruptAsFailure: true,
    ...(seed === undefined ? {} : { seed }),
  })
  if (!details.failed) return undefined
  const { errorInstance } = details
  const reason = errorInstance instanceof Error ? errorInstance.message : String(errorInstance)
  return `${await fc.asyncDefaultReportMessage(details)}\n\n${reason}`
}

/**
 * A history has some 75 steps, each made durable and read back in full. It takes a second or two, and up to half a minute on a slow and
 * busy machine. A search that runs out of time fails, although it says nothing about the store, so the limit is far beyond that.
 */
const limitMs = (runs: number): number => 120_000 + runs * 60_000

/** Registers a vitest test that the store behaves like the memory store. */
export const compareWithMemory = (comparison: Comparison): void =>
  test(
    `${comparison.name} answers ${comparison.runs} random histories as the memory store does`,
    async () => {
      const difference = await findDifference(comparison)
      expect(difference, difference).toBe(undefined)
    },
    limitMs(comparison.runs) + 60_000,
  )

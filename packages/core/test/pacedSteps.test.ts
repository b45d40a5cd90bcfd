import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { inPacedSteps, inSteps, nextSize } from "../src/worker/repeating.ts"

interface Step {
  readonly size: number
  readonly beganAt: number
  readonly endedAt: number
}

/** A store that takes this long for each record, with a fixed part for each step. */
const sweeping = (records: number, msOfRecord: number, msOfStep: number) => {
  const steps: Array<Step> = []
  let left = records
  const step = Effect.fnUntraced(function* (size: number) {
    const beganAt = yield* Clock.currentTimeMillis
    const count = Math.min(size, left)
    left -= count
    yield* Effect.sleep(msOfStep + count * msOfRecord)
    steps.push({ size, beganAt, endedAt: yield* Clock.currentTimeMillis })
    return count
  })
  return { step, steps }
}

const inVirtualTime = <A, E>(work: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(work)
    yield* TestClock.adjust("1 hour")
    return yield* Fiber.join(fiber)
  })

describe("the steps of a sweep", () => {
  it.effect("deal with every record, and end with one that finds fewer than it may", () =>
    Effect.gen(function* () {
      for (const records of [0, 1, 19, 20, 21, 1_000]) {
        const { step } = sweeping(records, 0, 0)
        assert.strictEqual(yield* inSteps(step), records)
      }
    }),
  )

  it.effect.each([
    [0.1, 1],
    [1, 0],
    [1, 4],
    [10, 0],
  ] as const)(
    "leave three quarters of the time to others, at %d ms a record and %d ms a step",
    ([msOfRecord, msOfStep]) =>
      Effect.gen(function* () {
        const { step, steps } = sweeping(2_000, msOfRecord, msOfStep)
        assert.strictEqual(yield* inVirtualTime(inSteps(step)), 2_000)
        for (const [index, { beganAt }] of steps.entries()) {
          const before = steps[index - 1]
          if (before !== undefined)
            assert.isAtLeast(beganAt - before.endedAt, 3 * (before.endedAt - before.beganAt) - 1)
        }
      }),
  )

  it.effect("become as short as five milliseconds where the store allows it, whatever it is like", () =>
    Effect.gen(function* () {
      for (const msOfRecord of [0.1, 0.2, 0.25]) {
        const { step, steps } = sweeping(3_000, msOfRecord, 0)
        yield* inVirtualTime(inSteps(step))
        for (const { beganAt, endedAt } of steps.slice(3)) assert.isAtMost(endedAt - beganAt, 7)
      }
    }),
  )

  it.effect("do not count what follows a step as the store's time", () =>
    Effect.gen(function* () {
      const { step, steps } = sweeping(400, 0.05, 0)
      yield* inVirtualTime(
        inPacedSteps(
          step,
          (count) => count,
          () => Effect.sleep(1_000),
        ),
      )
      assert.deepStrictEqual(
        steps.map(({ size }) => size),
        [20, 40, 80, 100, 100, 100],
      )
    }),
  )

  it("have a size between 20 and 100, and at most twice the last", () => {
    for (const [size, tookMs, next] of [
      [20, 0, 40],
      [80, 0, 100],
      [100, 5, 100],
      [100, 10, 50],
      [100, 1_000, 20],
      [20, 100, 20],
      [20, 4, 25],
    ] as const)
      assert.strictEqual(nextSize(size, tookMs), next)
  })
})

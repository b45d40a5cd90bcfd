import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { inPacedSteps, inSteps, stepSizes } from "../src/worker/repeating.ts"

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
        const long = steps.slice(3).filter(({ beganAt, endedAt }) => endedAt - beganAt > 7)
        // Trials of a larger size.
        assert.isAtMost(long.length, steps.length / 12)
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
        [20, 50, 100, 100, 100, 100],
      )
    }),
  )

  /** The sizes of steps that take this long for each record, and this long more for each step. */
  const sizesAt = (count: number, msOfRecord: number, msOfStep: number): ReadonlyArray<number> => {
    const sizing = stepSizes()
    return Array.from({ length: count }, () => {
      const size = sizing.size()
      sizing.took(msOfStep + size * msOfRecord)
      return size
    })
  }

  it.each([
    // Fifty records are within five milliseconds, a hundred are not.
    { msOfRecord: 0.08, msOfStep: 0, sizes: [20, 50, 100, 50, 50, 50] },
    // Nothing is within five milliseconds, and a record costs the same in each.
    { msOfRecord: 0.4, msOfStep: 0, sizes: [20, 50, 20, 20, 20, 20] },
    // A distant server: the way to it takes most of the time.
    { msOfRecord: 0.1, msOfStep: 80, sizes: [20, 50, 100, 100, 100, 100] },
    { msOfRecord: 0.35, msOfStep: 10, sizes: [20, 50, 100, 50, 50, 50] },
  ])("settle at $sizes with $msOfRecord ms a record and $msOfStep ms a step", ({ msOfRecord, msOfStep, sizes }) => {
    assert.deepStrictEqual(sizesAt(6, msOfRecord, msOfStep), sizes)
  })

  it("become small again after a stall, or a beginning with nothing in memory", () => {
    for (const slow of [[50], [10, 4, 2], Array.from({ length: 30 }, () => 0), []]) {
      const sizing = stepSizes()
      const steps = Array.from({ length: 1_000 }, (_, n) => {
        const size = sizing.size()
        sizing.took(size * (slow[n] ?? (n === 500 ? 100 : 1)))
        return size
      })
      for (const settled of [steps.slice(300, 500), steps.slice(800)])
        assert.isAtMost(settled.filter((size) => size > 20).length, settled.length / 5)
    }
  })

  it("become larger and smaller again with the load of the store", () => {
    const sizing = stepSizes()
    /** The mean size after a while of such steps. */
    const settled = (msOfRecord: number, msOfStep: number): number => {
      const all = Array.from({ length: 200 }, () => {
        const size = sizing.size()
        sizing.took(msOfStep + size * msOfRecord)
        return size
      })
      return all.slice(100).reduce((sum, size) => sum + size, 0) / 100
    }
    assert.isBelow(settled(0.4, 0), 25)
    assert.isAbove(settled(0.01, 0.5), 95)
    assert.isBelow(settled(0.4, 0), 25)
    assert.isAbove(settled(0.05, 20), 90)
  })
})

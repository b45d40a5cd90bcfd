import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { TestClock } from "effect/testing"
import { findDifference, storeSections, type Stores } from "../src/index.ts"
import { type BuggyStores, makeBuggyStores } from "./plantedBugs/BuggyStores.ts"
import { caughtBy } from "./plantedBugs/caughtBy.ts"
import { plantedBugs } from "./plantedBugs/index.ts"

let stores: BuggyStores
beforeAll(async () => {
  stores = await makeBuggyStores()
})
afterAll(() => stores.remove())

/** The names of the checks of a section that this store fails. */
const failing = (layer: Layer.Layer<Stores>, name: string): Promise<ReadonlyArray<string>> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const section = storeSections.find((candidate) => candidate.name === name)
      if (section === undefined) throw new Error(`no section ${name}`)
      const names: Array<string> = []
      for (const check of section.checks) {
        const exit = yield* Effect.exit(
          check.run.pipe(Effect.provide(Layer.fresh(layer)), Effect.provide(TestClock.layer())),
        )
        if (Exit.isFailure(exit)) names.push(check.name)
      }
      return names
    }),
  )

it("every planted bug names the tests that detect it, and no others", () => {
  expect(Object.keys(caughtBy).toSorted()).toEqual(plantedBugs.map(({ bug }) => bug).toSorted())
})

describe("the conformance suite detects", () => {
  for (const planted of plantedBugs)
    it(planted.bug, async () => {
      const failed = await failing(await stores.withBug(planted), planted.section)
      const stated = planted.caughtBy.checks
      expect(stated.length).toBeGreaterThan(0)
      expect(failed).toEqual(expect.arrayContaining([...stated]))
    })
})

describe("the comparison with the memory stores detects", () => {
  for (const planted of plantedBugs.filter((one) => one.unseenInHistories !== true))
    it(planted.bug, async () => {
      const layer = await stores.withBug(planted)
      expect(await findDifference({ layer, runs: 2_000, seed: 1, shrink: false })).toBeTypeOf("string")
    })
})

describe("the invariants alone, checked on random histories of a store that is compared with itself, detect", () => {
  for (const planted of plantedBugs.filter((one) => one.caughtBy.promises))
    it(planted.bug, async () => {
      const layer = await stores.withBug(planted)
      let difference: string | undefined
      // Some bugs need a rare order of calls.
      for (let seed = 1; seed <= 10 && difference === undefined; seed++)
        difference = await findDifference({ layer, reference: layer, runs: 100, seed, shrink: false })
      expect(difference).toContain("an invariant failed")
    })
})

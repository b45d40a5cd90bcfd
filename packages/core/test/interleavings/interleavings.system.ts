import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { races } from "./races/index.ts"
import { explore } from "./support/Race.ts"

const numRuns = 120

describe("in every order of requests and responses", () => {
  for (const race of races)
    it(race.name, async () => {
      const { details, met } = await explore(race, numRuns)
      if (details.failed) throw new Error(await fc.asyncDefaultReportMessage(details), { cause: details.errorInstance })
      // Otherwise these were no races: always one order, or never the one that could do harm.
      expect(race.reaches.filter((event) => !met.events.has(event))).toEqual([])
      expect(met.orders.size).toBeGreaterThan(numRuns / 10)
    })
})

describe("a seed", () => {
  for (const race of races)
    it(`reproduces the same orders: ${race.name}`, async () => {
      const [first, second] = [await explore(race, 5, { seed: 1 }), await explore(race, 5, { seed: 1 })]
      expect([...second.met.orders]).toEqual([...first.met.orders])
    })
})

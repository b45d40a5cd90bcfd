import { expect, it } from "vitest"
import { patience } from "./support/Lab.ts"
import { stormOfKills } from "./support/storm.ts"

it("jobs of every kind, while processes are killed at random: each accepted job ends once", patience, async () => {
  const { violations, ...report } = await stormOfKills({ jobs: 60, kills: 6, seed: 1 })
  console.info(`random kills: ${JSON.stringify(report)}`)
  expect(violations).toEqual([])
  expect(report).toMatchObject({ acknowledged: 60, done: 60, failed: 0, charges: 60 })
  expect(report.lostWorkers, "the kills hit running jobs").toBeGreaterThan(0)
})

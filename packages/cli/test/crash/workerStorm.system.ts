import { expect, it } from "vitest"
import { patience } from "./support/Lab.ts"
import { stormOfWorkers } from "./support/workerStorm.ts"

it("workers on Postgres are killed at random, and the database crashes: each job ends once", patience, async () => {
  const { violations, ...report } = await stormOfWorkers({
    workers: 2,
    jobs: 300,
    killEveryMs: 2_000,
    kills: 4,
    seed: 1,
  })
  console.info(`random kills on Postgres: ${JSON.stringify(report)}`)
  expect(violations).toEqual([])
  expect(report).toMatchObject({ acknowledged: 300, done: 300, charges: 300, restarts: 1 })
  expect(report.kills).toBeGreaterThan(0)
  expect(report.calls).toBeLessThanOrEqual(report.attempts)
})

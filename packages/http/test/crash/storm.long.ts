import { expect, it } from "vitest"
import { stormOfKills } from "./support/storm.ts"

const plan = { jobs: 600, kills: 60, seed: 1 }

it("six hundred jobs under sixty random kills: each acknowledged one ends once", { timeout: 3_600_000 }, async () => {
  const { violations, ...report } = await stormOfKills(plan)
  process.stdout.write(
    `figure: random kills of two processes (seed ${plan.seed}): ${report.kills} kills, ${report.acknowledged} jobs ` +
      `acknowledged, ${report.done} done, ${report.charges} charges, ${report.lostWorkers} lost workers\n`,
  )
  expect(violations).toEqual([])
  expect(report).toMatchObject({ acknowledged: 600, done: 600, failed: 0, charges: 600 })
})

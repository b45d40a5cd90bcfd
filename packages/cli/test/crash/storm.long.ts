import { expect, it } from "vitest"
import { stormOfKills } from "./support/storm.ts"

const plan = { jobs: 1_200, kills: 60, seed: 1 }

it(
  "jobs of every kind, while processes are killed at random for minutes: each accepted job ends once",
  { timeout: 3_600_000 },
  async () => {
    const { violations, ...report } = await stormOfKills(plan)
    process.stdout.write(
      `figure: random kills of two processes (seed ${plan.seed}): ${report.kills} kills, ${report.acknowledged} jobs ` +
        `acknowledged, ${report.done} done, ${report.charges} charges, ${report.lostWorkers} lost workers\n`,
    )
    expect(violations).toEqual([])
    expect(report.kills).toBeGreaterThanOrEqual(50)
    expect(report).toMatchObject({ acknowledged: plan.jobs, done: plan.jobs, failed: 0, charges: plan.jobs })
  },
)

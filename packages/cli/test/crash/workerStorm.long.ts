import { expect, it } from "vitest"
import { stormOfWorkers } from "./support/workerStorm.ts"

const plan = { workers: 4, jobs: 20_000, killEveryMs: 2_000, kills: Number.POSITIVE_INFINITY, seed: 1 }

it(
  "four workers on Postgres, one killed every two seconds, and a database that crashes in the middle: each job ends once",
  { timeout: 7_200_000 },
  async () => {
    const { violations, ...report } = await stormOfWorkers(plan)
    process.stdout.write(
      `figure: ${plan.workers} worker processes on Postgres, one killed every ${plan.killEveryMs / 1_000} s, ` +
        `one immediate restart of the database (seed ${plan.seed}): ${report.kills} kills, ${report.acknowledged} jobs ` +
        `acknowledged, ${report.done} done, ${report.charges} charges, ${report.attempts} attempts, ` +
        `${report.calls} provider calls, ${report.lostWorkers} lost workers, ${report.seconds} s\n`,
    )
    expect(violations).toEqual([])
    expect(report).toMatchObject({ acknowledged: plan.jobs, done: plan.jobs, charges: plan.jobs, restarts: 1 })
    expect(report.calls).toBeLessThanOrEqual(report.attempts)
    expect(report.lostWorkers, "the kills hit running jobs").toBeGreaterThan(0)
  },
)

import { expect, it } from "vitest"
import { databaseDown } from "./support/databaseDown.ts"

it(
  "Postgres is down for a minute under load: the service reports it, survives, and recovers by itself",
  { timeout: 600_000 },
  async () => {
    const figures = await databaseDown({ downMs: 60_000, jobs: 200 })
    process.stdout.write(
      `figure: Postgres down for 60 s under load: ${figures.jobs} jobs done, ${figures.refused} requests answered with 503 ` +
        `meanwhile, ${figures.lostWorkers} attempts lost with their leases, work went on ${figures.recoveredMs} ms after it was back\n`,
    )
    expect(figures.recoveredMs).toBeLessThanOrEqual(5_000)
  },
)

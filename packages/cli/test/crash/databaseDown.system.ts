import { expect, it } from "vitest"
import { databaseDown } from "./support/databaseDown.ts"
import { patience } from "./support/Lab.ts"

it(
  "Postgres is down for 6 s under load: the service reports it, survives, and recovers by itself",
  patience,
  async () => {
    const figures = await databaseDown({ downMs: 6_000, jobs: 40 })
    console.info(`database down: ${JSON.stringify(figures)}`)
    expect(figures.recoveredMs).toBeLessThanOrEqual(5_000)
  },
)

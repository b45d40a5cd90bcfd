import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateFlows } from "../src/simulateFlows.ts"

// The system tier simulates many more.
it.live("flows of 134 jobs, their processes killed at random, end as they must", () =>
  Effect.gen(function* () {
    const outcomes = yield* Effect.forEach([1, 2, 3], (seed) => simulateFlows(seed))
    for (const { jobs, violations } of outcomes) expect({ jobs, violations }).toEqual({ jobs: 134, violations: [] })
    // A seed alone may kill nothing.
    expect(outcomes.reduce((sum, { kills }) => sum + kills, 0)).toBeGreaterThan(0)
  }),
)

import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateFlows } from "../src/simulateFlows.ts"

// The system tier simulates many more.
it.live.each([1, 2, 3])("a flow of 59 jobs, its processes killed at random, ends as it must (seed %i)", (seed) =>
  Effect.gen(function* () {
    const outcome = yield* simulateFlows(seed)
    expect(outcome.violations).toEqual([])
    expect(outcome.jobs).toBe(59)
    expect(outcome.kills).toBeGreaterThan(0)
  }),
)

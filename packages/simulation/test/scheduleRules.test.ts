import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateScheduleRules } from "../src/simulateScheduleRules.ts"

// The system tier simulates more days of more seeds.
it.live("a day of overlapping jobs, missed ticks and kills: each tick has one job or is skipped, in order", () =>
  Effect.gen(function* () {
    const outcome = yield* simulateScheduleRules(1, 1)
    expect(outcome.violations).toEqual([])
    expect(outcome.jobs).toBeGreaterThan(100)
    expect(outcome.skipped).toBeGreaterThan(20)
    expect(outcome.manual).toBeGreaterThan(10)
    expect(outcome.kills).toBeGreaterThan(20)
  }),
)

import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateSchedules } from "../src/simulateSchedules.ts"

// The system tier simulates a hundred days.
it.live("five days, five processes with skewed clocks, killed at random: each tick has one job", () =>
  Effect.gen(function* () {
    const outcome = yield* simulateSchedules(1, 5)
    expect(outcome.violations).toEqual([])
    expect(outcome.ticks).toBeGreaterThan(390)
    expect(outcome.kills).toBeGreaterThan(50)
  }),
)

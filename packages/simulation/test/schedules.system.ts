import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateSchedules } from "../src/simulateSchedules.ts"

it.live.each([1])(
  "twenty days, five processes with skewed clocks, killed at random: each tick has one job (seed %i)",
  (seed) =>
    Effect.gen(function* () {
      const outcome = yield* simulateSchedules(seed, 20)
      expect(outcome.violations).toEqual([])
      expect(outcome.ticks).toBeGreaterThan(1_500)
      expect(outcome.kills).toBeGreaterThan(200)
    }),
  300_000,
)

import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateSchedules } from "../src/simulateSchedules.ts"

it.live.each([1])(
  "forty days, five processes with skewed clocks, killed at random: each tick has one job (seed %i)",
  (seed) =>
    Effect.gen(function* () {
      const outcome = yield* simulateSchedules(seed, 40)
      expect(outcome.violations).toEqual([])
      expect(outcome.ticks).toBeGreaterThan(3_000)
      expect(outcome.kills).toBeGreaterThan(400)
    }),
  300_000,
)

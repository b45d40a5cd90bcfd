import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateScheduleRules } from "../src/simulateScheduleRules.ts"

it.live.each([2, 4, 5, 6, 7, 8, 9])(
  "ten days of overlapping jobs, missed ticks and kills: each tick has one job or is skipped, in order (seed %i)",
  (seed) =>
    Effect.gen(function* () {
      const outcome = yield* simulateScheduleRules(seed, 10)
      expect(outcome.violations).toEqual([])
      expect(outcome.jobs).toBeGreaterThan(750)
      expect(outcome.skipped).toBeGreaterThan(150)
      expect(outcome.manual).toBeGreaterThan(25)
      expect(outcome.kills).toBeGreaterThan(100)
    }),
  300_000,
)

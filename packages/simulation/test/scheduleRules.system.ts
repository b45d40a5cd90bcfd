import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateScheduleRules } from "../src/simulateScheduleRules.ts"

it.live.each([2])(
  "three days of overlapping jobs, missed ticks and kills: each tick has one job or is skipped, in order (seed %i)",
  (seed) =>
    Effect.gen(function* () {
      const outcome = yield* simulateScheduleRules(seed, 3)
      expect(outcome.violations).toEqual([])
      expect(outcome.jobs).toBeGreaterThan(300)
      expect(outcome.skipped).toBeGreaterThan(60)
      expect(outcome.manual).toBeGreaterThan(10)
      expect(outcome.kills).toBeGreaterThan(50)
    }),
  300_000,
)

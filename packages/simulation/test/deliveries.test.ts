import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateDeliveries } from "../src/simulateDeliveries.ts"

it.live.each([1, 2, 3])(
  "300 finished jobs, four processes killed at random, calls that fail: each is delivered, never at once (seed %i)",
  (seed) =>
    Effect.gen(function* () {
      const outcome = yield* simulateDeliveries(seed, 300)
      expect(outcome.violations).toEqual([])
      expect(outcome.kills).toBeGreaterThan(15)
      expect(outcome.calls).toBeGreaterThan(350)
    }),
  60_000,
)

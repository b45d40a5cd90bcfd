import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { simulateFlows } from "../src/simulateFlows.ts"

it.live("190 more flows whose processes are killed at random, rarely and often, end as they must", () =>
  Effect.gen(function* () {
    let kills = 0
    for (let seed = 11; seed <= 200; seed++) {
      const outcome = yield* simulateFlows(seed, seed % 2 === 0 ? 0.01 : 0.03)
      expect(outcome.violations, `seed ${seed}`).toEqual([])
      kills += outcome.kills
    }
    expect(kills).toBeGreaterThan(1_600)
  }),
)

import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { SimulatedStores } from "./Installation.ts"
import { describeBroken, simulateRuns } from "./simulateRuns.ts"

export interface SimulatedStoresUnderTest {
  /** Appears in the name of the test. */
  readonly name: string
  /** Each build opens empty stores; their verbs must answer in the same turn of the event loop. Store time must be the Effect `Clock`. */
  readonly layer: Layer.Layer<SimulatedStores, unknown>
  /** The first seed. */
  readonly seed: number
  /** The number of runs, one after the other. From some hundred on, the set must reach every required state. */
  readonly runs: number
}

/** Runs of which every state must be reached. */
const enoughForEverything = 500

/**
 * Registers with vitest that the real engine and workers keep every promise over these stores,
 * whatever goes wrong around them: kills, stand-stills, lost answers, outages, bad providers.
 */
export const simulationConformance = ({ layer, name, runs, seed }: SimulatedStoresUnderTest): void => {
  describe(`${name} under faults`, () => {
    it.live(
      `seeds ${seed} to ${seed + runs - 1} violate no invariant`,
      () =>
        Effect.gen(function* () {
          const { broken, jobs, unreached } = yield* simulateRuns({ layer, seed, runs })
          expect(broken === undefined ? undefined : describeBroken(broken)).toBe(undefined)
          expect(jobs).toBeGreaterThan(runs)
          if (runs >= enoughForEverything) expect(unreached).toEqual([])
        }),
      // On a busy machine; alone, a run takes a tenth of a second, and on a disk several.
      60_000 + runs * 3_000,
    )
  })
}

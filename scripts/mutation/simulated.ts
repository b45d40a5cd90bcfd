// A short part of packages/simulation/test, for scripts/mutation.ts. The first runs detect most of what all of them do.
import { expect, it } from "@effect/vitest"
import { MemoryStores } from "@kiln/testing"
import * as Effect from "effect/Effect"
import { simulateFlows } from "@kiln/simulation"
import { simulationConformance } from "@kiln/simulation/conformance"

const name = "MemoryStores"

simulationConformance({ name, layer: MemoryStores.layer, seed: 1, runs: 3 })
simulationConformance({ name, layer: MemoryStores.layer, seed: 4, runs: 6 })

it.live("flows end as they must", () =>
  Effect.map(simulateFlows(1), ({ jobs, violations }) =>
    expect({ jobs, violations }).toEqual({ jobs: 134, violations: [] }),
  ),
)

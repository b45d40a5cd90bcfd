import { MemoryStores } from "@kiln/testing"
import { simulationConformance } from "../src/simulationConformance.ts"

// The other tiers run the first 60.
simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 61, runs: 1_940 })

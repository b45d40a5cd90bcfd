import { MemoryStores } from "@kiln/testing"
import { simulationConformance } from "../src/simulationConformance.ts"

// In a separate file, so that it runs in parallel with the first thousand.
simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 1_001, runs: 1_000 })

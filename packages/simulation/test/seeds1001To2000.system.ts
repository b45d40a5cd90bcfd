import { MemoryStores } from "@kiln/testing"
import { simulationConformance } from "../src/simulationConformance.ts"

// In a file of its own, so that it runs beside the first thousand.
simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 1_001, runs: 1_000 })

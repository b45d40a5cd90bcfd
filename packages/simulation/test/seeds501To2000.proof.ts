import { MemoryStores } from "@kiln/testing"
import { simulationConformance } from "../src/simulationConformance.ts"

// The system tier runs the first 500.
simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 501, runs: 1_500 })

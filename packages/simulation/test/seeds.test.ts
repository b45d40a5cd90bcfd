import { MemoryStores } from "@kiln/testing"
import { simulationConformance } from "../src/simulationConformance.ts"

// The system tier runs 70 more, the proof tier the rest of 2,000.
simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 1, runs: 30 })

import { MemoryStores } from "@kiln/testing"
import { simulationConformance } from "../src/simulationConformance.ts"

// The system tier runs 500, the proof tier 1,500 more.
simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 1, runs: 100 })

import { MemoryStores } from "@kiln/testing"
import { simulationConformance } from "../src/simulationConformance.ts"

// The system tier runs the first 250.
simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 101, runs: 1_900 })

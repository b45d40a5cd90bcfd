import { MemoryStores } from "@kiln/testing"
import { simulationConformance } from "../src/simulationConformance.ts"

// The first tier runs the first 30.
simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 31, runs: 1_970 })

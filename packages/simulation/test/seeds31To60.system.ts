import { MemoryStores } from "@kiln/testing"
import { simulationConformance } from "../src/simulationConformance.ts"

simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 31, runs: 30 })

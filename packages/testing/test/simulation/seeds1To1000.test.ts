import { MemoryStores } from "../../src/index.ts"
import { simulationConformance } from "../../src/conformance/index.ts"

simulationConformance({ name: "MemoryStores", layer: MemoryStores.layer, seed: 1, runs: 1_000 })

import { MemoryStores } from "../src/index.ts"
import { compareWithMemory, storeConformance } from "@kiln/conformance"

storeConformance({
  name: "MemoryStores",
  layer: MemoryStores.layer,
  capabilities: { durable: false, multiProcess: false },
  reasons: { durable: "nothing survives the process", multiProcess: "it is one process's memory" },
})
compareWithMemory({ name: "MemoryStores", layer: MemoryStores.layer, runs: 50 })

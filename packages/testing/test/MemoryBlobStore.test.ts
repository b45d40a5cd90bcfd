import { blobStoreConformance } from "@kiln/conformance"
import { MemoryBlobStore } from "../src/memory/MemoryBlobStore.ts"

blobStoreConformance({
  name: "memory",
  layer: MemoryBlobStore.layer,
  capabilities: { durable: false, multiProcess: false },
  reasons: { durable: "nothing survives the process", multiProcess: "it is one process's memory" },
})

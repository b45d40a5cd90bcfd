import { blobStoreConformance } from "../src/conformance/BlobStore.ts"
import { MemoryBlobStore } from "../src/memory/MemoryBlobStore.ts"

blobStoreConformance({
  name: "memory",
  layer: MemoryBlobStore.layer,
  capabilities: { durable: false, multiProcess: false },
  reasons: { durable: "nothing survives the process", multiProcess: "it is one process's memory" },
})

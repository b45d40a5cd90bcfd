import { blobStoreConformance } from "../src/conformance/BlobStore.ts"
import { MemoryBlobStore } from "../src/memory/MemoryBlobStore.ts"

blobStoreConformance({ name: "memory", layer: MemoryBlobStore.layer })

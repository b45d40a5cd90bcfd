export * from "./fakes/index.ts"
export { memoryBlobs, memoryStore } from "./memory/adapters.ts"
export { MemoryBlobStore } from "./memory/MemoryBlobStore.ts"
export { MemoryStores } from "./memory/MemoryStores.ts"

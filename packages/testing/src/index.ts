export * from "./fakes/index.ts"
export { MemoryBlobStore } from "./memory/MemoryBlobStore.ts"
export { MemoryStores } from "./memory/MemoryStores.ts"

import * as Layer from "effect/Layer"
import { type BlobAdapter, blobAdapter, BlobStore, type StoreAdapter, storeAdapter } from "@kiln/core/ports"
import { makeMemoryBlobStore } from "./MemoryBlobStore.ts"
import { emptyState } from "./MemoryState.ts"
import { portsOf } from "./MemoryStores.ts"

/**
 * Creates record stores in memory, for programs without Effect. Each call creates a new, empty store; engines that use the same
 * one share its records. Nothing survives the process.
 */
export const memoryStore = (...none: ReadonlyArray<never>): StoreAdapter => {
  requireNone("memoryStore()", none)
  return storeAdapter(Layer.succeedContext(portsOf(emptyState())))
}

/** Creates a blob store in memory, for programs without Effect. Each call creates a new, empty one, shared like `memoryStore`. */
export const memoryBlobs = (...none: ReadonlyArray<never>): BlobAdapter => {
  requireNone("memoryBlobs()", none)
  return blobAdapter(Layer.succeed(BlobStore, makeMemoryBlobStore(new Map())))
}

const requireNone = (place: string, given: ReadonlyArray<unknown>): void => {
  if (given.length > 0) throw new TypeError(`${place} takes no options`)
}

import { Effect } from "effect"
import { BlobStore, JobStore, type Purge } from "../ports/index.ts"

/** Removes blobs nothing refers to any more, and says so once they are verified gone. Until then the purge stays due. */
export const purgeBlobs = Effect.fnUntraced(function* (purges: ReadonlyArray<Purge>) {
  const blobs = yield* BlobStore
  const store = yield* JobStore
  yield* Effect.forEach(purges, (purge) => blobs.remove(purge.blobPrefix), { discard: true })
  if (purges.length > 0) yield* store.confirmPurges(purges)
})

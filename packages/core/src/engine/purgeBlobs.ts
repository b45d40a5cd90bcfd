import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { BlobStore, JobStore, type Purge } from "../ports/index.ts"

/**
 * Removes blobs that nothing refers to any more, and confirms each purge once they are verifiably gone. A purge that fails remains
 * due and does not prevent the others. Fails with the first such failure.
 */
export const purgeBlobs = Effect.fnUntraced(function* (purges: ReadonlyArray<Purge>) {
  const blobs = yield* BlobStore
  const store = yield* JobStore
  const results = yield* Effect.forEach(purges, (purge) => Effect.result(blobs.remove(purge.blobPrefix)))
  const gone = purges.filter((_, index) => results[index]?._tag === "Success")
  if (gone.length > 0) yield* store.confirmPurges(gone)
  const failed = results.find(Result.isFailure)
  if (failed !== undefined) return yield* Effect.fail(failed.failure)
})

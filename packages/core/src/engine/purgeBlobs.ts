import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { BlobUnavailable } from "../domain/index.ts"
import { BlobStore, JobStore, type Purge } from "../ports/index.ts"

/** The outcome of purges. */
interface Purged {
  /** Number of those whose blobs are verifiably gone. */
  readonly gone: number
  /** The first failure, if any. */
  readonly failure: BlobUnavailable | undefined
}

/** Concurrent removals share work in stores that can: a directory of files reads a shard and syncs it once for several. */
const removedAtOnce = 16

/**
 * Removes blobs that nothing refers to any more, and confirms each purge once they are verifiably gone. A purge that fails is moved
 * back, so that it does not keep the store from the others, and does not prevent those that follow here.
 */
export const tryPurges = Effect.fnUntraced(function* (purges: ReadonlyArray<Purge>) {
  const blobs = yield* BlobStore
  const store = yield* JobStore
  const results = yield* Effect.forEach(purges, (purge) => Effect.result(blobs.remove(purge.blobPrefix)), {
    concurrency: removedAtOnce,
  })
  const failed = purges.filter((_, index) => results[index]?._tag === "Failure")
  const gone = purges.filter((_, index) => results[index]?._tag === "Success")
  if (gone.length > 0) yield* store.confirmPurges(gone)
  if (failed.length > 0) yield* store.postponePurges(failed)
  return { gone: gone.length, failure: results.find(Result.isFailure)?.failure } satisfies Purged
})

/** Does the same, and fails with the first failure. */
export const purgeBlobs = (purges: ReadonlyArray<Purge>) =>
  Effect.flatMap(tryPurges(purges), ({ failure }) => (failure === undefined ? Effect.void : Effect.fail(failure)))

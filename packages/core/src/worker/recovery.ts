import { Effect, Stream } from "effect"
import { BlobStore, JobStore } from "../ports/index.ts"
import type { Slots } from "./Slots.ts"

/**
 * Gives back what lapsed, one by one. Fenced like every write: where another worker has the job by now, nothing happens.
 * What cannot be given back because the store is still away is kept for the next time; what fails otherwise is left to
 * the end of its lease.
 */
export const giveBackLapsed = Effect.fnUntraced(function* (slots: Slots) {
  const store = yield* JobStore
  for (const ref of slots.takeLapsed()) {
    yield* store.releaseJobs([ref]).pipe(
      Effect.tapError(() => Effect.sync(() => slots.keepLapsed([ref]))),
      Effect.catchDefect(() => Effect.logWarning("a lapsed claim could not be given back", ref.jobId)),
      Effect.ignore,
    )
  }
})

/** Whether the blob store is back is found out with a byte of our own, not with a result that was paid for. */
export const tryWithheld = Effect.fnUntraced(function* (slots: Slots) {
  const blobs = yield* BlobStore
  for (const [kind, key] of slots.withheld) {
    const back = blobs.put(key, Stream.succeed(new Uint8Array(1)), { maxBytes: 1 }).pipe(
      Effect.andThen(blobs.remove(key)),
      Effect.as(true),
      Effect.catchCause(() => Effect.succeed(false)),
    )
    if (yield* back) slots.withheld.delete(kind)
  }
})

import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { BlobStore, JobStore, WakeUp } from "../../ports/index.ts"
import type { Slots } from "./Slots.ts"

/**
 * Releases lapsed claims one by one. Fenced like every write: if another worker has claimed the job, nothing happens.
 * If the store is still unavailable, the claims are kept for the next call. After any other failure, the job stays claimed until
 * its lease ends.
 */
export const releaseLapsed = Effect.fnUntraced(function* (slots: Slots) {
  const store = yield* JobStore
  for (const ref of slots.lapsed) {
    yield* Effect.catchDefect(store.releaseJobs([ref]), () =>
      Effect.logWarning("could not release a lapsed claim", ref.jobId),
    )
    slots.lapsed.delete(ref)
  }
})

/**
 * Checks regularly whether the blob store is available again, for the kinds that wait for it. It writes a single byte, so that no
 * result that was paid for is risked. It runs concurrently with claiming, so that a blob store that hangs does not delay other
 * kinds.
 */
export const watchWithheld = Effect.fnUntraced(function* (slots: Slots) {
  const { pollIntervalMs } = yield* EngineConfig
  const blobs = yield* BlobStore
  const wakeUp = yield* WakeUp
  while (true) {
    yield* Effect.sleep(pollIntervalMs)
    for (const [kind, key] of slots.withheld) {
      const back = blobs.put(key, Stream.succeed(new Uint8Array(1)), { maxBytes: 1 }).pipe(
        Effect.andThen(blobs.remove(key)),
        Effect.as(true),
        Effect.catchCause(() => Effect.succeed(false)),
      )
      if (!(yield* back)) continue
      slots.withheld.delete(kind)
      yield* wakeUp.notify
    }
  }
})

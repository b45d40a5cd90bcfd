import { Effect, Layer, Stream } from "effect"
import { type BlobUnavailable, ownerOfBlob } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { purgeBlobs } from "../engine/PurgeBlobs.ts"
import { BlobStore, JobStore, type PruneResult, UploadStore } from "../ports/index.ts"

/** Records changed by one step of a sweep: a sweep never holds the store for long. */
const stepSize = 100
/** Blobs asked about at once. */
const orphanBatchSize = 500

/** Repeats a step until it finds less than it could take. */
const untilDone = <E, R>(step: Effect.Effect<number, E, R>): Effect.Effect<void, E, R> =>
  Effect.gen(function* () {
    while ((yield* step) >= stepSize) yield* Effect.yieldNow
  })

const notRemoved = (error: BlobUnavailable) => Effect.logWarning("blobs could not be removed yet", error.cause)

/** Fails jobs that waited or ran too long. */
export const expireOverdue = Effect.flatMap(JobStore, (store) => untilDone(store.expireJobs(stepSize)))

/** Lets go of what is past its retention, and finishes purges that are still due. */
export const pruneOnce = Effect.gen(function* () {
  const { dataRetentionMs, jobRetentionMs } = yield* EngineConfig
  const jobs = yield* JobStore
  const uploads = yield* UploadStore
  // A blob that cannot be removed now stays due, and must not hold up what else is to be let go.
  const pruned = <E, R>(step: Effect.Effect<PruneResult, E, R>) =>
    untilDone(
      Effect.flatMap(step, (result) =>
        Effect.as(Effect.catchTag(purgeBlobs(result.purges), "BlobUnavailable", notRemoved), result.count),
      ),
    )
  if (dataRetentionMs > 0) yield* pruned(jobs.expireData(dataRetentionMs, stepSize))
  if (jobRetentionMs > 0) {
    yield* pruned(jobs.deleteJobs(jobRetentionMs, stepSize))
    yield* untilDone(uploads.deleteUploads(jobRetentionMs, stepSize))
  }
  yield* pruned(uploads.expireUploads(stepSize))
  const due = yield* jobs.listPurges(stepSize)
  yield* purgeBlobs(due)
})

/**
 * Removes blobs that belong to nothing and never can: what crashed attempts and transfers left
 * behind. Which those are is the store's to say; a blob whose claim may still commit is not one.
 */
export const collectOrphans = Effect.gen(function* () {
  const blobs = yield* BlobStore
  const jobs = yield* JobStore
  const uploads = yield* UploadStore
  const collect = Effect.fnUntraced(function* (keys: ReadonlyArray<string>) {
    const ofJobs: Array<{ blobKey: string; jobId: `job_${string}`; token: number }> = []
    const ofUploads: Array<{ blobKey: string; uploadId: `upl_${string}`; token: number }> = []
    for (const blobKey of keys) {
      const owner = ownerOfBlob(blobKey)
      if (owner?._tag === "Job") ofJobs.push({ blobKey, jobId: owner.jobId, token: owner.token })
      if (owner?._tag === "Upload") ofUploads.push({ blobKey, uploadId: owner.uploadId, token: owner.token })
    }
    const orphans = [...(yield* jobs.findOrphans(ofJobs)), ...(yield* uploads.findUploadOrphans(ofUploads))]
    yield* Effect.forEach(orphans, (blobKey) => Effect.catchTag(blobs.remove(blobKey), "BlobUnavailable", notRemoved), {
      discard: true,
    })
    return orphans.length
  })
  let removed = 0
  for (const prefix of ["jobs", "uploads"]) {
    yield* blobs.list(prefix).pipe(
      Stream.grouped(orphanBatchSize),
      Stream.runForEach((keys) => Effect.map(collect(keys), (count) => void (removed += count))),
    )
  }
  return removed
})

/** Runs the sweeps for ever, each at its own pace. One that fails is tried again at its next turn. */
const sweep = Effect.gen(function* () {
  const config = yield* EngineConfig
  const every = <A, E, R>(name: string, intervalMs: number, work: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      while (true) {
        yield* Effect.catchCause(work, (cause) => Effect.logWarning(`sweep failed: ${name}`, cause))
        yield* Effect.sleep(intervalMs)
      }
    })
  yield* Effect.all(
    [
      every("expire", config.sweepIntervalMs, expireOverdue),
      every("prune", config.pruneIntervalMs, pruneOnce),
      every("orphans", config.orphanIntervalMs, collectOrphans),
    ],
    { concurrency: "unbounded", discard: true },
  )
})

/** The sweeps, until the layer's scope closes. Every process runs them, whether or not it runs jobs. */
export const layerSweeps: Layer.Layer<never, never, JobStore | UploadStore | BlobStore> = Layer.effectDiscard(
  Effect.forkScoped(sweep),
)

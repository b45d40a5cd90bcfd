import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type Job, type Principal, uploadBlobPrefix } from "../../domain/index.ts"
import { BlobStore, JobDirectory, JobStore } from "../../ports/index.ts"

const batchSize = 100
/** Number of jobs whose files are looked for at the same time. */
const jobsAtOnce = 8

const isGone = Effect.fnUntraced(function* ({ files, uploadId }: Job) {
  const blobs = yield* BlobStore
  for (const { blobKey } of files) {
    const opened = blobs
      .open(blobKey)
      .pipe(
        Effect.as(false),
        Effect.catchTags({ BlobNotFound: () => Effect.succeed(true), BlobCorrupt: () => Effect.succeed(false) }),
      )
    if (yield* opened) return true
  }
  if (uploadId === null) return false
  return (yield* Stream.runCollect(Stream.take(blobs.list(uploadBlobPrefix(uploadId)), 1))).length === 0
})

/** A finished job whose files are gone although its record still has its data. */
export interface ErasedElsewhere {
  readonly jobId: Job["id"]
  readonly principal: Principal
}

/**
 * Finds finished jobs whose data was erased by another copy of these records: the record still has it, but a file of the job or
 * its upload is gone. Returns them, and the number of jobs whose data is kept.
 */
export const findErasedElsewhere = Effect.gen(function* () {
  const directory = yield* JobDirectory
  const found: Array<ErasedElsewhere> = []
  let kept = 0
  for (const status of ["done", "failed"] as const) {
    let after: string | undefined
    do {
      const page = yield* directory.listJobs({ status, limit: batchSize, after })
      const ids = page.jobs.filter(({ retained }) => retained === "kept").map(({ id }) => id)
      const jobs = ids.length === 0 ? [] : yield* directory.readJobs(ids)
      const look = Effect.fnUntraced(function* (job: Job | undefined) {
        if (job === undefined || !(yield* isGone(job))) return
        const { id: jobId, keyId, mode, projectId } = job
        found.push({ jobId, principal: { keyId, mode, projectId, scopes: [] } })
      })
      yield* Effect.forEach(jobs, look, { concurrency: jobsAtOnce, discard: true })
      kept += ids.length
      after = page.next
    } while (after !== undefined)
  }
  return { found, kept }
})

/** Erases the data of these jobs here as well. Their remaining files are removed by the sweeps of the next server. */
export const eraseHereToo = Effect.fnUntraced(function* (jobs: ReadonlyArray<ErasedElsewhere>) {
  const store = yield* JobStore
  for (let at = 0; at < jobs.length; at += batchSize) yield* store.eraseJobs(jobs.slice(at, at + batchSize))
})

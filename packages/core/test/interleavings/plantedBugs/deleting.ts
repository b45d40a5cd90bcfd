import { Clock, Effect, Stream } from "effect"
import { inJobs, inUploads, type PlantedBug, present } from "./PlantedBug.ts"

/** In deletion and collection. */
export const deleting: ReadonlyArray<PlantedBug> = [
  {
    bug: "erase removes the blobs before the row says so",
    promise: 32,
    race: "complete × erase:",
    shows: /^true .*(a row names jobs\/.*, which does not exist|BlobNotFound)/,
    plant: inJobs(({ blobs, jobs }, wait) => ({
      eraseJobs: (items) =>
        Effect.gen(function* () {
          for (const { jobId } of items) yield* Effect.orDie(blobs.remove(`jobs/${jobId.slice(4)}`))
          yield* wait("the blobs are gone, the row not yet")
          return yield* jobs.eraseJobs(items)
        }),
    })),
  },
  {
    bug: "a running job can be erased",
    promise: 38,
    race: "complete × erase:",
    shows: /^true .*expected \[ 'failed', 'deleted'/,
    plant: inJobs((adapters) => ({
      eraseJobs: (items) =>
        Effect.gen(function* () {
          const refs = items.map(({ jobId }) => ({ jobId, token: 0, errorCode: "internal_error" as const }))
          yield* adapters.jobs.failJobs(yield* present(adapters, refs))
          return yield* adapters.jobs.eraseJobs(items)
        }),
    })),
  },
  {
    bug: "the second erasure reports that the data is gone while it still exists",
    promise: 37,
    race: "erase × erase",
    shows: /^true .*to deeply equal \[\]/,
    plant: inJobs(({ jobs }) => ({
      eraseJobs: (items) =>
        Effect.map(jobs.eraseJobs(items), (outcomes) =>
          outcomes.map((outcome) => (outcome._tag === "AlreadyErased" ? { ...outcome, purges: [] } : outcome)),
        ),
    })),
  },
  {
    bug: "collection removes what a running transfer may still commit",
    promise: 33,
    race: "sweep × running",
    shows: /^true .*to include 'uploads\//,
    plant: inUploads(({ uploads }) => ({
      findUploadOrphans: (blobs) => uploads.findUploadOrphans(blobs.map((blob) => ({ ...blob, token: 0 }))),
    })),
  },
  {
    bug: "unused uploads are found, then erased, even if a job has used one in between",
    promise: 30,
    race: "create × expiry",
    shows: /^true .*expected \[\] to deeply equal/,
    plant: inUploads(({ blobs, uploads }, wait) => ({
      expireUploads: (limit) =>
        Effect.gen(function* () {
          const keys = yield* Effect.orDie(Stream.runCollect(blobs.list("uploads")))
          const now = yield* Clock.currentTimeMillis
          const due: Array<string> = []
          for (const key of keys) {
            const upload = yield* uploads.findUpload(`upl_${key.split("/")[1]}`)
            // Looked at a moment too early, when a job could still come.
            if (upload?.jobId === null && upload.usableUntil - 1 <= now + 60_000) due.push(key)
          }
          yield* wait("between look and write")
          for (const key of due) yield* Effect.orDie(blobs.remove(key))
          return yield* uploads.expireUploads(limit)
        }),
    })),
  },
]

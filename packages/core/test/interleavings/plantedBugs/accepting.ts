import { type Job } from "@kiln/core/domain"
import { transferRefusal } from "../../../src/domain/Upload.ts"
import type { NewJob } from "@kiln/core/ports"
import { Clock, Effect } from "effect"
import type { Adapters } from "../support/Adapters.ts"
import type { Plant } from "../support/World.ts"
import { inJobs, inUploads, type PlantedBug } from "./PlantedBug.ts"

/** Looks first whether each may be created, and creates it in a second step, past the check that the store makes. */
const lookThenCreate = (
  check: (adapters: Adapters, job: NewJob) => Effect.Effect<boolean>,
  past: (job: NewJob, n: number) => NewJob,
): Plant =>
  inJobs((adapters, wait) => {
    let n = 0
    const { createJobs } = adapters.jobs
    return {
      createJobs: (jobs) =>
        Effect.forEach(jobs, (job) =>
          Effect.gen(function* () {
            const refused = yield* check(adapters, job)
            yield* wait("between look and write")
            const outcomes = yield* createJobs([refused ? job : past(job, n++)])
            return outcomes[0]!
          }),
        ),
    }
  })

/** In accepting jobs and files. */
export const accepting: ReadonlyArray<PlantedBug> = [
  {
    bug: "idempotency: looked up, then inserted without the constraint",
    promise: 20,
    race: "create × create with the same idempotency key",
    shows: /^true .*expected [23] to equal 1/,
    plant: lookThenCreate(
      ({ jobs }, job) =>
        Effect.orDie(
          Effect.map(jobs.findByIdempotencyKey(job.keyId, job.idempotencyKey), (found) => found !== undefined),
        ),
      (job, n) => ({ ...job, idempotencyKey: `${job.idempotencyKey}${n === 0 ? "" : n}` }),
    ),
  },
  {
    bug: "an upload is checked, then used without the constraint",
    promise: 29,
    race: "create × create with the same upload",
    shows: /^true .*expected [23] to equal 1/,
    plant: lookThenCreate(
      ({ uploads }, { uploadId }) =>
        Effect.orDie(
          uploadId === null
            ? Effect.succeed(false)
            : Effect.map(uploads.findUpload(uploadId), (upload) => upload?.jobId !== null),
        ),
      (job, n) => (n === 0 ? job : { ...job, uploadId: null }),
    ),
  },
  {
    bug: "the queue is counted, then the job inserted",
    promise: 57,
    race: "create × create at the queue's cap",
    shows: /^true .*expected [23] to equal 1/,
    plant: (adapters, wait) => {
      const accepted: Array<Job> = []
      const planted = lookThenCreate(
        (_, job) => Effect.sync(() => accepted.length >= job.queueCap),
        (job) => ({ ...job, queueCap: 0 }),
      )(adapters, wait)
      return {
        ...planted,
        jobs: {
          ...planted.jobs,
          createJobs: (jobs) =>
            Effect.tap(planted.jobs.createJobs(jobs), (outcomes) =>
              Effect.sync(() => {
                for (const outcome of outcomes) if (outcome._tag === "Created") accepted.push(outcome.job)
              }),
            ),
        },
      }
    },
  },
  {
    bug: "two transfers may begin at once: checked, then written",
    promise: 26,
    race: "PUT × PUT: one",
    shows: /^true .*to deeply equal \[ Array\(1\) \]/,
    plant: inUploads(({ uploads }, wait) => ({
      claimUpload: (request) =>
        Effect.gen(function* () {
          const upload = yield* uploads.findUpload(request.uploadId)
          const now = yield* Clock.currentTimeMillis
          if (upload === undefined || transferRefusal(upload, now, request.maxTransfers) !== undefined)
            return yield* uploads.claimUpload(request)
          yield* wait("between look and write")
          const later = yield* uploads.findUpload(request.uploadId)
          yield* uploads.releaseUpload({ uploadId: request.uploadId, token: later?.token ?? 0 })
          return yield* uploads.claimUpload(request)
        }),
    })),
  },
  {
    bug: "no fence: a transfer that lost its lease still commits",
    promise: 26,
    race: "PUT × PUT after",
    shows: /^true .*(A wrote completeUpload with the token 1|to deeply equal)/,
    plant: inUploads(({ uploads }) => ({
      completeUpload: (transfer) =>
        Effect.flatMap(uploads.findUpload(transfer.uploadId), (upload) =>
          uploads.completeUpload({ ...transfer, token: upload?.token ?? transfer.token }),
        ),
    })),
  },
]

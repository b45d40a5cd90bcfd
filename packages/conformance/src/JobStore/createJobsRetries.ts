import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { jobBlobPrefix } from "@kiln/core/domain"
import { type CreateOutcome, JobStore, type NewJob, Switchboard } from "@kiln/core/ports"
import {
  advance,
  claim,
  claimOne,
  complete,
  create,
  createAndClaim,
  createDone,
  createFailed,
  createTags,
  createUpload,
  createUploaded,
  duePurges,
  exists,
  first,
  openAudioGate,
  read,
  readUpload,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import {
  audioGate,
  digest,
  jobId,
  keyId,
  newJob,
  newLiveJob,
  newUpload,
  newUploadJob,
  ownerOf,
  projectId,
  uploadId,
} from "../fixtures.ts"

/** Job `n`, a retry of job `of`. */
const retry = (n: number, of: number, overrides: Partial<NewJob> = {}): NewJob =>
  newJob(n, { retryOf: jobId(of), ...overrides })

const retryWithUpload = (n: number, of: number, overrides: Partial<NewJob> = {}): NewJob =>
  newUploadJob(n, { retryOf: jobId(of), uploadId: uploadId(of), ...overrides })

/** Upload `n`, and job `n` that consumed it and failed. */
const createFailedWithUpload = Effect.fnUntraced(function* (n: number, overrides: Partial<NewJob> = {}) {
  yield* createUploaded(n, overrides.mode === undefined ? {} : { mode: overrides.mode })
  return yield* createFailed(newUploadJob(n, overrides))
})

const createdJob = (outcome: CreateOutcome | undefined) =>
  outcome !== undefined && "job" in outcome ? outcome.job : undefined

/** Retrying failed jobs. */
export const retries: Section = {
  name: "JobStore.createJobs: retries",
  checks: [
    check(
      "a failed job is retried as a new job and does not change",
      Effect.gen(function* () {
        const failed = yield* createFailed(newJob(1))
        yield* advance(5)
        const job = first(yield* create(retry(2, 1)))
        expect(job).toMatchObject({ status: "queued", createdAt: 5, token: 0, attempts: 0, failures: 0 })
        expect(yield* read(newJob(1))).toEqual(failed)
        yield* complete(yield* claimOne())
        expect(yield* read(newJob(1))).toEqual(failed)
      }),
    ),

    check(
      "for every kind of failure: by its worker, overdue, abandoned, canceled",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { limits: { queueLimitMs: 10, runLimitMs: 10 } }))
        yield* advance(10)
        yield* store.expireJobs(10)
        yield* createAndClaim(newJob(2), { leaseDurationMs: 1 })
        yield* advance(1)
        expect((yield* claim({ maxLostWorkers: 1 })).abandoned).toEqual([jobId(2)])
        yield* create(newJob(3))
        yield* store.cancelJobs([jobId(3)])
        expect(yield* createTags(retry(11, 1), retry(12, 2), retry(13, 3))).toEqual(["Created", "Created", "Created"])
      }),
    ),

    check(
      "unknown, waiting, running and done jobs, and jobs without their data, cannot be retried",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createDone(newJob(1))
        yield* createAndClaim(newJob(2))
        yield* create(newJob(3))
        expect(yield* createTags(retry(11, 1), retry(12, 2), retry(13, 3), retry(14, 99))).toEqual(
          Array.from({ length: 4 }, () => "NotRetryable"),
        )
        yield* store.cancelJobs([jobId(3)])
        const erased = yield* read(newJob(3))
        yield* store.eraseJobs([{ jobId: erased.id, principal: ownerOf(erased) }])
        expect(yield* createTags(retry(15, 3))).toEqual(["NotRetryable"])
        yield* store.cancelJobs([jobId(2)])
        expect((yield* store.expireData(0, 10)).count).toBe(2)
        expect(yield* createTags(retry(16, 2))).toEqual(["NotRetryable"])
        expect((yield* store.deleteJobs(0, 10)).count).toBe(3)
        expect(yield* createTags(retry(17, 2))).toEqual(["NotRetryable"])
        for (const n of [11, 12, 13, 14, 15, 16, 17]) expect(yield* exists(newJob(n))).toBe(false)
      }),
    ),

    check(
      "jobs of another key, project or mode cannot be retried",
      Effect.gen(function* () {
        const failed = yield* createFailed(newJob(1))
        yield* openAudioGate
        const others = [
          { keyId: keyId(2) },
          { keyId: keyId(3), projectId: projectId(2) },
          { mode: "live" as const, gate: audioGate },
        ]
        expect(yield* createTags(...others.map((other, n) => retry(2 + n, 1, other)))).toEqual([
          "NotRetryable",
          "NotRetryable",
          "NotRetryable",
        ])
        expect(yield* read(newJob(1))).toEqual(failed)
      }),
    ),

    check(
      "the upload goes over to the new job, in the same step",
      Effect.gen(function* () {
        const failed = yield* createFailedWithUpload(1)
        const upload = yield* readUpload(1)
        const job = first(yield* create(retryWithUpload(2, 1)))
        expect(job.uploadId).toBe(uploadId(1))
        expect(yield* readUpload(1)).toEqual({ ...upload, jobId: jobId(2) })
        expect(yield* read(newUploadJob(1))).toEqual({ ...failed, uploadId: null })
        expect((yield* claimOne()).upload).toEqual({ ...upload, jobId: jobId(2) })
      }),
    ),

    check(
      "also when the file is too old for a first job",
      Effect.gen(function* () {
        yield* createUpload(newUpload(9))
        yield* createFailedWithUpload(1)
        const { usableUntil } = yield* readUpload(1)
        yield* advance(usableUntil + 5)
        expect(yield* createTags(retryWithUpload(2, 1))).toEqual(["Created"])
      }),
    ),

    check(
      "erasing or removing the old job no longer touches the file; the new job's erasure does",
      Effect.gen(function* () {
        const store = yield* JobStore
        const old = yield* createFailedWithUpload(1)
        yield* advance(100)
        yield* create(retryWithUpload(2, 1))
        const upload = yield* readUpload(1)
        const erased = first(yield* store.eraseJobs([{ jobId: old.id, principal: ownerOf(old) }]))
        expect(erased).toEqual({ _tag: "Erased", purges: [{ blobPrefix: jobBlobPrefix(old.id) }] })
        expect(yield* readUpload(1)).toEqual(upload)
        expect((yield* store.deleteJobs(100, 10)).count).toBe(1)
        expect(yield* readUpload(1)).toEqual(upload)
        const done = yield* complete(yield* claimOne())
        yield* store.eraseJobs([{ jobId: done.id, principal: ownerOf(done) }])
        expect(yield* readUpload(1)).toMatchObject({ erased: true, file: null, jobId: jobId(2) })
        expect(yield* duePurges).toHaveLength(3)
      }),
    ),

    check(
      "an upload can be taken over again only from the job that has it now",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createFailedWithUpload(1)
        yield* create(retryWithUpload(2, 1))
        expect(yield* createTags(retryWithUpload(3, 1))).toEqual(["NotRetryable"])
        yield* store.cancelJobs([jobId(2)])
        expect(yield* createTags(retryWithUpload(4, 2, { uploadId: uploadId(1) }))).toEqual(["Created"])
        expect((yield* readUpload(1)).jobId).toBe(jobId(4))
        expect((yield* read(newUploadJob(2))).uploadId).toBe(null)
      }),
    ),

    check(
      "an upload that was not the failed job's is refused",
      Effect.gen(function* () {
        yield* createFailedWithUpload(1)
        yield* createUploaded(2)
        expect(yield* createTags(retryWithUpload(3, 1, { uploadId: uploadId(2) }))).toEqual(["NotRetryable"])
        expect(yield* createTags(retryWithUpload(4, 1, { uploadId: null }))).toEqual(["NotRetryable"])
        expect((yield* readUpload(2)).jobId).toBe(null)
        expect((yield* readUpload(1)).jobId).toBe(jobId(1))
      }),
    ),

    check(
      "a repetition with the same idempotency key gets the same job, regardless of both jobs' states",
      Effect.gen(function* () {
        const store = yield* JobStore
        const failed = yield* createFailedWithUpload(1)
        const item = retryWithUpload(2, 1)
        const job = first(yield* create(item))
        expect(yield* store.createJobs([{ ...item, id: jobId(3) }])).toEqual([{ _tag: "Replayed", job }])
        yield* store.eraseJobs([{ jobId: failed.id, principal: ownerOf(failed) }])
        expect(
          yield* createTags({ ...item, id: jobId(4) }, { ...item, id: jobId(5), fingerprint: digest(99) }),
        ).toEqual(["Replayed", "KeyReused"])
      }),
    ),

    check(
      "of many concurrent retries with one idempotency key, one creates the job; with separate keys, one gets the upload",
      Effect.gen(function* () {
        const store = yield* JobStore
        const numbers = Array.from({ length: 10 }, (_, n) => n)
        yield* createFailedWithUpload(1)
        const same = { idempotencyKey: "same", fingerprint: digest(1) }
        const tags = (yield* Effect.forEach(numbers, (n) => store.createJobs([retryWithUpload(10 + n, 1, same)]), {
          concurrency: "unbounded",
        })).flat()
        expect(tags.filter(({ _tag }) => _tag === "Created")).toHaveLength(1)
        expect(new Set(tags.map((outcome) => createdJob(outcome)?.id)).size).toBe(1)
        yield* createFailedWithUpload(2)
        const apart = yield* Effect.forEach(numbers, (n) => createTags(retryWithUpload(30 + n, 2)), {
          concurrency: "unbounded",
        })
        expect(apart.flat().toSorted()).toEqual(["Created", ...numbers.slice(1).map(() => "NotRetryable")])
      }),
    ),

    check(
      "within one batch, the first retry gets the upload",
      Effect.gen(function* () {
        yield* createFailedWithUpload(1)
        expect(yield* createTags(retryWithUpload(2, 1), newJob(5), retryWithUpload(3, 1))).toEqual([
          "Created",
          "Created",
          "NotRetryable",
        ])
      }),
    ),

    check(
      "gate and queue cap apply after the check that the job can be retried; a refusal moves nothing",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        const gate = { ...audioGate, kind: "transcription" }
        const live = { mode: "live" as const, gate }
        const failed = yield* createFailedWithUpload(1, live)
        yield* create(newLiveJob(9))
        const item = retryWithUpload(2, 1, { ...live, queueCap: 1 })
        yield* board.setSwitch("ai", false)
        expect(yield* createTags({ ...item, retryOf: jobId(77) }, item)).toEqual(["NotRetryable", "GateClosed"])
        yield* board.setSwitch("ai", true)
        expect(yield* createTags(item)).toEqual(["QueueFull"])
        expect(yield* read(failed)).toEqual(failed)
        expect((yield* readUpload(1)).jobId).toBe(jobId(1))
        expect(yield* createTags({ ...item, queueCap: 2 })).toEqual(["Created"])
      }),
    ),

    check(
      "a live job is retried at the current price",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        const failed = yield* createFailed(newLiveJob(1))
        yield* board.setPrice({ name: "svc-audio", currency: "eur", unitAmounts: { input_characters: "2" } })
        const job = first(yield* create(newLiveJob(2, { retryOf: failed.id })))
        expect([failed.price?.version, job.price?.version]).toEqual([1, 2])
      }),
    ),
  ],
}

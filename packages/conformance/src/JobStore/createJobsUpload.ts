import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, type NewJob, UploadStore } from "@kiln/core/ports"
import {
  advance,
  beginTransfer,
  create,
  createDoneWithUpload,
  createTags,
  createUpload,
  createUploaded,
  first,
  readUpload,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import {
  jobId,
  keyId,
  leaseDurationMs,
  maxTransfers,
  newJob,
  newUpload,
  newUploadJob,
  ownerOf,
  projectId,
  transferWindowMs,
  uploadId,
  usableForMs,
} from "../fixtures.ts"

const reasonOf = Effect.fnUntraced(function* (job: NewJob) {
  const store = yield* JobStore
  const outcome = first(yield* store.createJobs([job]))
  return outcome._tag === "UploadRefused" ? outcome.reason : outcome._tag
})

/** One upload feeds at most one job. */
export const createJobsUpload: Section = {
  name: "JobStore.createJobs: upload",
  checks: [
    check(
      "consumes the upload in the same step",
      Effect.gen(function* () {
        const before = yield* createUploaded(1)
        const job = first(yield* create(newUploadJob(1)))
        expect(job.uploadId).toBe(uploadId(1))
        expect(yield* readUpload(1)).toEqual({ ...before, jobId: job.id })
      }),
    ),

    check(
      "an unknown upload and those of another project, key or mode are all not found",
      Effect.gen(function* () {
        yield* createUploaded(1, { projectId: projectId(2) })
        yield* createUploaded(2, { keyId: keyId(2) })
        yield* createUploaded(3, { mode: "live" })
        for (const n of [1, 2, 3, 4]) expect(yield* reasonOf(newUploadJob(n))).toBe("not_found")
        for (const n of [1, 2, 3]) expect((yield* readUpload(n)).jobId).toBe(null)
      }),
    ),

    check(
      "in a batch, the file of another upload does not help, and a refused job leaves its own to the sweep",
      Effect.gen(function* () {
        yield* createUploaded(1)
        yield* createUploaded(2)
        yield* createUpload(newUpload(3))
        const { idempotencyKey } = newJob(9)
        const batch = [newJob(9), newUploadJob(1), newUploadJob(2, { idempotencyKey }), newUploadJob(3)]
        expect(yield* createTags(...batch)).toEqual(["Created", "Created", "KeyReused", "UploadRefused"])
        yield* advance(usableForMs)
        expect(yield* (yield* UploadStore).expireUploads(10)).toMatchObject({ count: 2 })
      }),
    ),

    check(
      "an upload is used once, regardless of its job's state",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = yield* createDoneWithUpload(1)
        const second = newUploadJob(2, { uploadId: uploadId(1) })
        expect(yield* reasonOf(second)).toBe("already_used")
        yield* store.eraseJobs([{ jobId: job.id, principal: ownerOf(job) }])
        expect(yield* reasonOf(second)).toBe("already_used")
        expect((yield* readUpload(1)).jobId).toBe(job.id)
      }),
    ),

    check(
      "an upload is used once within one batch",
      Effect.gen(function* () {
        yield* createUploaded(1)
        expect(yield* createTags(newUploadJob(1), newUploadJob(2, { uploadId: uploadId(1) }))).toEqual([
          "Created",
          "UploadRefused",
        ])
        expect((yield* readUpload(1)).jobId).toBe(jobId(1))
      }),
    ),

    check(
      "of many concurrent jobs, one gets the upload",
      Effect.gen(function* () {
        yield* createUploaded(1)
        const reasons = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, n) => newUploadJob(n + 1, { uploadId: uploadId(1) })),
          reasonOf,
          { concurrency: "unbounded" },
        )
        expect(reasons.filter((reason) => reason === "Created")).toHaveLength(1)
        expect(reasons.filter((reason) => reason === "already_used")).toHaveLength(19)
      }),
    ),

    check(
      "before and during the transfer it is not ready, afterwards it is",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1))
        expect(yield* reasonOf(newUploadJob(1))).toBe("not_ready")
        const token = yield* beginTransfer(1)
        expect(yield* reasonOf(newUploadJob(1))).toBe("not_ready")
        yield* store.releaseUpload({ uploadId: uploadId(1), token })
        expect(yield* reasonOf(newUploadJob(1))).toBe("not_ready")
        const second = yield* beginTransfer(1)
        yield* store.completeUpload({
          uploadId: uploadId(1),
          token: second,
          file: { blobKey: "uploads/1/2", bytes: 1, sha256: "00" },
        })
        expect(yield* reasonOf(newUploadJob(1))).toBe("Created")
      }),
    ),

    check(
      "a file may be used until exactly its time, long after its URL expired",
      Effect.gen(function* () {
        yield* createUploaded(1)
        yield* createUploaded(2)
        yield* advance(usableForMs - 1)
        expect(yield* reasonOf(newUploadJob(1))).toBe("Created")
        yield* advance(1)
        expect(yield* reasonOf(newUploadJob(2))).toBe("expired")
      }),
    ),

    check(
      "an upload without a file has expired once no transfer can begin any more",
      Effect.gen(function* () {
        yield* createUpload(newUpload(1))
        yield* advance(transferWindowMs - 1)
        expect(yield* reasonOf(newUploadJob(1))).toBe("not_ready")
        yield* advance(1)
        expect(yield* reasonOf(newUploadJob(1))).toBe("expired")
      }),
    ),

    check(
      "a transfer begun in time is waited for until its lease ends",
      Effect.gen(function* () {
        yield* createUpload(newUpload(1))
        yield* advance(transferWindowMs - 1)
        yield* beginTransfer(1)
        yield* advance(leaseDurationMs - 1)
        expect(yield* reasonOf(newUploadJob(1))).toBe("not_ready")
        yield* advance(1)
        expect(yield* reasonOf(newUploadJob(1))).toBe("expired")
      }),
    ),

    check(
      "an upload has expired after its last allowed transfer failed",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1))
        for (let n = 1; n <= maxTransfers; n++) {
          expect(yield* reasonOf(newUploadJob(1))).toBe("not_ready")
          yield* store.releaseUpload({ uploadId: uploadId(1), token: yield* beginTransfer(1) })
        }
        expect(yield* reasonOf(newUploadJob(1))).toBe("expired")
        expect(yield* reasonOf(newUploadJob(1, { maxTransfers: maxTransfers + 1 }))).toBe("not_ready")
      }),
    ),

    check(
      "an upload erased by age has expired",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUploaded(1, { usableForMs: 1_000 })
        yield* advance(1_000)
        expect(yield* store.expireUploads(10)).toMatchObject({ count: 1 })
        expect(yield* reasonOf(newUploadJob(1))).toBe("expired")
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Job, jobBlobPrefix, type Principal, uploadBlobPrefix } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import {
  advance,
  beginTransfer,
  claimOne,
  complete,
  create,
  createAndClaim,
  createDone,
  createDoneWithUpload,
  createFailed,
  createUpload,
  createUploaded,
  duePurges,
  findFile,
  first,
  openAudioGate,
  read,
  readUpload,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { stateOf } from "../expectations.ts"
import {
  charge,
  completionOf,
  fileId,
  jobId,
  keyId,
  newJob,
  newLiveJob,
  newUpload,
  newUploadJob,
  outputFile,
  ownerOf,
  projectId,
  uploadId,
} from "../fixtures.ts"

/** Erases a job and returns its purges by name, because their order is not defined. */
const erase = Effect.fnUntraced(function* (job: Job, principal: Principal = ownerOf(job)) {
  const store = yield* JobStore
  const outcome = first(yield* store.eraseJobs([{ jobId: job.id, principal }]))
  return "purges" in outcome
    ? { ...outcome, purges: outcome.purges.toSorted((a, b) => (a.blobPrefix < b.blobPrefix ? -1 : 1)) }
    : outcome
})

const purgesOf = (job: Pick<Job, "id" | "uploadId">) =>
  [jobBlobPrefix(job.id), ...(job.uploadId === null ? [] : [uploadBlobPrefix(job.uploadId)])].map((blobPrefix) => ({
    blobPrefix,
  }))

/** Deletion on request. */
export const eraseJobs: Section = {
  name: "JobStore.eraseJobs",
  checks: [
    check(
      "blanks all retained data immediately, and leaves the rest of the record unchanged",
      Effect.gen(function* () {
        const done = yield* createDoneWithUpload(1)
        yield* advance(100)
        const outcome = yield* erase(done)
        expect(outcome._tag).toBe("Erased")
        const after = yield* read(done)
        expect(after).toEqual({
          ...done,
          retained: "deleted",
          request: null,
          checkpoints: {},
          output: null,
          files: [],
          warningCode: "data_deleted",
        })
        expect(stateOf(after)).toEqual(stateOf(done))
        expect(yield* findFile(fileId(1))).toBe(undefined)
        const { file, erased, jobId: consumer } = yield* readUpload(1)
        expect({ file, erased, consumer }).toEqual({ file: null, erased: true, consumer: done.id })
      }),
    ),

    check(
      "returns the blobs to be purged, including its upload's, until the purge is confirmed",
      Effect.gen(function* () {
        const store = yield* JobStore
        const done = yield* createDoneWithUpload(1)
        const purges = purgesOf(done)
        expect(yield* erase(done)).toEqual({ _tag: "Erased", purges })
        expect((yield* duePurges).toSorted()).toEqual(purges.map((purge) => purge.blobPrefix).toSorted())
        expect(yield* erase(done)).toEqual({ _tag: "AlreadyErased", purges })
        yield* store.confirmPurges(purges.slice(0, 1))
        expect(yield* erase(done)).toEqual({ _tag: "AlreadyErased", purges: purges.slice(1) })
        yield* store.confirmPurges(purges)
        expect(yield* erase(done)).toEqual({ _tag: "AlreadyErased", purges: [] })
        expect(yield* duePurges).toEqual([])
      }),
    ),

    check(
      "erasing again changes nothing",
      Effect.gen(function* () {
        const done = yield* createDone(newJob(1))
        yield* erase(done)
        const before = yield* read(done)
        yield* advance(1)
        yield* erase(done)
        expect(yield* read(done)).toEqual(before)
      }),
    ),

    check(
      "keeps the charge",
      Effect.gen(function* () {
        yield* openAudioGate
        const done = yield* createDone(newLiveJob(1))
        yield* erase(done)
        expect((yield* read(done)).charge).toEqual(charge)
      }),
    ),

    check(
      "a failed job's data goes too; its code stays",
      Effect.gen(function* () {
        const failed = yield* createFailed(newJob(1))
        expect(yield* erase(failed)).toEqual({ _tag: "Erased", purges: purgesOf(failed) })
        expect(yield* read(failed)).toEqual({
          ...failed,
          retained: "deleted",
          request: null,
          warningCode: "data_deleted",
        })
      }),
    ),

    check(
      "data_deleted is the stronger of two warnings",
      Effect.gen(function* () {
        const done = yield* complete(yield* createAndClaim(), { warningCode: "output_truncated" })
        yield* erase(done)
        expect((yield* read(done)).warningCode).toBe("data_deleted")
      }),
    ),

    check(
      "an unfinished job stays as it is: queued, held, deferred",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createUploaded(1)
        const job = first(yield* create(newUploadJob(1)))
        expect(yield* erase(job)).toEqual({ _tag: "Unfinished" })
        const { token } = yield* claimOne()
        expect(yield* erase(job)).toEqual({ _tag: "Unfinished" })
        yield* store.deferJobs([{ jobId: job.id, token, delayMs: 10, countsAsFailure: true }])
        const before = yield* read(job)
        expect(yield* erase(job)).toEqual({ _tag: "Unfinished" })
        expect(yield* read(job)).toEqual(before)
        expect((yield* readUpload(1)).file).not.toBe(null)
        expect(yield* duePurges).toEqual([])
      }),
    ),

    check(
      "a job of another key, project or mode is not found, like one that never existed",
      Effect.gen(function* () {
        const done = yield* createDone(newJob(1))
        const owner = ownerOf(done)
        for (const other of [
          { ...owner, keyId: keyId(2) },
          { ...owner, projectId: projectId(2) },
          { ...owner, mode: "live" as const },
        ])
          expect(yield* erase(done, other)).toEqual({ _tag: "NotFound" })
        expect(yield* erase({ ...done, id: jobId(9) })).toEqual({ _tag: "NotFound" })
        expect(yield* read(done)).toEqual(done)
        expect(yield* duePurges).toEqual([])
      }),
    ),

    check(
      "an unfinished job of another owner is not found either",
      Effect.gen(function* () {
        const job = first(yield* create(newJob(1)))
        expect(yield* erase(job, { ...ownerOf(job), keyId: keyId(2) })).toEqual({ _tag: "NotFound" })
      }),
    ),

    check(
      "in a batch each item has its own outcome, in order",
      Effect.gen(function* () {
        const store = yield* JobStore
        const done = yield* createDone(newJob(1))
        yield* create(newJob(2))
        const principal = ownerOf(done)
        const outcomes = yield* store.eraseJobs(
          [jobId(2), jobId(9), jobId(1), jobId(1)].map((id) => ({ jobId: id, principal })),
        )
        expect(outcomes.map(({ _tag }) => _tag)).toEqual(["Unfinished", "NotFound", "Erased", "AlreadyErased"])
      }),
    ),

    check(
      "a late attempt restores nothing: its completion was already counted",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claimed = yield* createAndClaim()
        const completion = completionOf(claimed, { files: [outputFile(claimed, 1)] })
        const done = yield* complete(claimed, completion)
        yield* erase(done)
        const before = yield* read(done)
        expect(yield* store.completeJobs([completion])).toEqual(["Written"])
        expect(yield* findFile(fileId(1))).toBe(undefined)
        expect(yield* store.checkpointJobs([{ jobId: done.id, token: done.token, step: "a", value: 1 }])).toEqual([
          "LeaseLost",
        ])
        expect(yield* read(done)).toEqual(before)
      }),
    ),

    check(
      "expired data that is erased on request counts as deleted from then on",
      Effect.gen(function* () {
        const store = yield* JobStore
        const done = yield* createDoneWithUpload(1)
        yield* store.expireData(0, 10)
        expect(yield* read(done)).toMatchObject({ retained: "expired", warningCode: "data_expired" })
        expect(yield* erase(done), "nothing was left to delete").toEqual({
          _tag: "AlreadyErased",
          purges: purgesOf(done),
        })
        expect(yield* read(done)).toMatchObject({ retained: "deleted", warningCode: "data_deleted" })
        yield* store.confirmPurges(purgesOf(done))
        expect(yield* erase(done)).toEqual({ _tag: "AlreadyErased", purges: [] })
      }),
    ),

    check(
      "concurrent delete and complete: either the deletion was too early, or the data is gone permanently",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claimed = yield* createAndClaim()
        const [written, erased] = yield* Effect.all([store.completeJobs([completionOf(claimed)]), erase(claimed.job)], {
          concurrency: "unbounded",
        })
        expect(written).toEqual(["Written"])
        expect(["Unfinished", "Erased"]).toContain(erased._tag)
        expect((yield* read(claimed.job)).output === null).toBe(erased._tag === "Erased")
      }),
    ),

    check(
      "leaves other jobs' uploads alone",
      Effect.gen(function* () {
        yield* createUploaded(2)
        yield* createUpload(newUpload(3))
        yield* beginTransfer(3)
        const before = [yield* readUpload(2), yield* readUpload(3)]
        yield* erase(yield* createDoneWithUpload(1))
        expect([yield* readUpload(2), yield* readUpload(3)]).toEqual(before)
        expect((yield* readUpload(1)).id).toBe(uploadId(1))
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import {
  advance,
  claim,
  claimedNumbers,
  claimOne,
  create,
  createAndClaim,
  createDone,
  createFailed,
  createTags,
  createUploaded,
  duePurges,
  findFile,
  first,
  openAudioGate,
  read,
  readUpload,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import {
  completionOf,
  fileId,
  jobId,
  leaseDurationMs,
  newJob,
  newLiveJob,
  newUploadJob,
  noLimits,
  outputFile,
  projectId,
  queueLimitMs,
  uploadId,
} from "../fixtures.ts"

const canceling = Effect.fnUntraced(function* (...numbers: ReadonlyArray<number>) {
  const store = yield* JobStore
  return yield* store.cancelJobs(numbers.map(jobId))
})

/** The operator cancels jobs, regardless of which worker holds them. */
export const cancelJobs: Section = {
  name: "JobStore.cancelJobs",
  checks: [
    check(
      "fails a queued job, which can no longer be claimed or expire",
      Effect.gen(function* () {
        const store = yield* JobStore
        const before = first(yield* create(newJob(1)))
        yield* advance(40)
        expect(yield* canceling(1)).toEqual(["Canceled"])
        const after = yield* read(newJob(1))
        expectMoved(before, { event: "canceled" }, 40, after)
        expect(after).toMatchObject({ errorCode: "canceled_by_operator", retained: "kept", waitedMs: 40, token: 1 })
        expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
        yield* advance(queueLimitMs)
        expect(yield* store.expireJobs(10)).toEqual([])
        expect(yield* read(newJob(1))).toEqual(after)
      }),
    ),

    check(
      "fails a job that a worker holds, and that worker can write nothing more",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        const claimed = yield* createAndClaim(newLiveJob(1))
        const ref = { jobId: jobId(1), token: claimed.token }
        yield* store.checkpointJobs([{ ...ref, step: "reply", value: "text" }])
        yield* advance(40)
        expect(yield* canceling(1)).toEqual(["Canceled"])
        const after = yield* read(newLiveJob(1))
        expectMoved(claimed.job, { event: "canceled" }, 40, after)
        expect(after).toMatchObject({ token: claimed.token + 1, held: false, ranMs: 40, charge: null })
        expect(yield* store.completeJobs([completionOf(claimed, { files: [outputFile(claimed, 1)] })])).toEqual([
          "LeaseLost",
        ])
        expect(yield* store.failJobs([{ ...ref, errorCode: "internal_error" }])).toEqual(["LeaseLost"])
        expect(yield* store.releaseJobs([ref])).toEqual(["LeaseLost"])
        expect(yield* store.deferJobs([{ ...ref, delayMs: 1, countsAsFailure: true }])).toEqual(["LeaseLost"])
        expect(yield* store.checkpointJobs([{ ...ref, step: "speak", value: 1 }])).toEqual(["LeaseLost"])
        expect(yield* store.extendLeases([{ ...ref, leaseDurationMs }])).toEqual([{ _tag: "LeaseLost" }])
        expect(yield* read(newLiveJob(1))).toEqual(after)
        expect(yield* findFile(fileId(1))).toBe(undefined)
        expect((yield* store.listCharges({ from: 0, to: 1_000, after: null, limit: 10 })).entries).toEqual([])
      }),
    ),

    check(
      "fails a job that waits for its next attempt, and one whose worker is lost",
      Effect.gen(function* () {
        const store = yield* JobStore
        const one = yield* createAndClaim(newJob(1))
        yield* store.deferJobs([{ jobId: jobId(1), token: one.token, delayMs: 1_000, countsAsFailure: true }])
        yield* createAndClaim(newJob(2))
        yield* advance(leaseDurationMs + 5)
        const before = [yield* read(newJob(1)), yield* read(newJob(2))]
        expect(yield* canceling(1, 2)).toEqual(["Canceled", "Canceled"])
        for (const [n, job] of before.entries())
          expectMoved(job, { event: "canceled" }, leaseDurationMs + 5, yield* read(newJob(n + 1)))
        expect(yield* read(newJob(2))).toMatchObject({ ranMs: leaseDurationMs, waitedMs: 0, lostWorkers: 0 })
        expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
      }),
    ),

    check(
      "an overdue job is canceled, not expired, if the cancellation comes first",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { limits: { queueLimitMs: 10, runLimitMs: 10 } }))
        yield* advance(10)
        expect(yield* canceling(1)).toEqual(["Canceled"])
        expect(yield* store.expireJobs(10)).toEqual([])
        expect((yield* read(newJob(1))).errorCode).toBe("canceled_by_operator")
      }),
    ),

    check(
      "reports finished and unknown jobs as such, and changes neither",
      Effect.gen(function* () {
        const done = yield* createDone(newJob(1))
        const failed = yield* createFailed(newJob(2))
        yield* create(newJob(3, { projectId: projectId(2) }))
        yield* advance(5)
        expect(yield* canceling(1, 9, 3, 2)).toEqual(["AlreadyFinished", "NotFound", "Canceled", "AlreadyFinished"])
        expect([yield* read(done), yield* read(failed)]).toEqual([done, failed])
        expect(yield* canceling()).toEqual([])
      }),
    ),

    check(
      "a repeat reports it as finished, in one batch or in two",
      Effect.gen(function* () {
        yield* create(newJob(1))
        expect(yield* canceling(1, 1)).toEqual(["Canceled", "AlreadyFinished"])
        const after = yield* read(newJob(1))
        yield* advance(5)
        expect(yield* canceling(1)).toEqual(["AlreadyFinished"])
        expect(yield* read(newJob(1))).toEqual(after)
      }),
    ),

    check(
      "of many concurrent cancellations one succeeds, and so does one of a cancellation and a completion",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        const many = yield* Effect.forEach([1, 2, 3, 4, 5], () => canceling(1), { concurrency: "unbounded" })
        expect(many.flat().filter((outcome) => outcome === "Canceled")).toHaveLength(1)
        const claimed = yield* createAndClaim(newJob(2))
        const [canceled, completed] = yield* Effect.all([canceling(2), store.completeJobs([completionOf(claimed)])], {
          concurrency: "unbounded",
        })
        const { status } = yield* read(newJob(2))
        expect([canceled, completed]).toEqual(
          status === "done" ? [["AlreadyFinished"], ["Written"]] : [["Canceled"], ["LeaseLost"]],
        )
      }),
    ),

    check(
      "keeps the job's data and upload until they are erased or expire",
      Effect.gen(function* () {
        const store = yield* JobStore
        const upload = yield* createUploaded(1)
        yield* create(newUploadJob(1))
        yield* canceling(1)
        expect(yield* read(newUploadJob(1))).toMatchObject({ request: newUploadJob(1).request, uploadId: uploadId(1) })
        expect(yield* readUpload(1)).toEqual({ ...upload, jobId: jobId(1) })
        expect(yield* duePurges).toEqual([])
        expect((yield* store.expireData(0, 10)).count).toBe(1)
        expect((yield* readUpload(1)).erased).toBe(true)
        expect(yield* duePurges).toHaveLength(2)
      }),
    ),

    check(
      "makes room: in the queue, and under the limits of concurrency",
      Effect.gen(function* () {
        yield* createAndClaim(newJob(1))
        yield* create(newJob(2))
        const limits = { ...noLimits, perProject: 1 }
        expect(yield* createTags(newJob(3, { queueCap: 2 }))).toEqual(["QueueFull"])
        expect((yield* claim({ limits })).claims).toEqual([])
        yield* canceling(1)
        expect(yield* createTags(newJob(3, { queueCap: 2 }))).toEqual(["Created"])
        expect(claimedNumbers(yield* claim({ limits }))).toEqual([2])
      }),
    ),

    check(
      "leaves its lane intact: the others keep their order, and projects take turns",
      Effect.gen(function* () {
        yield* create(...[1, 2, 3, 4, 5].map((n) => newJob(n)))
        yield* create(...[11, 12, 13].map((n) => newJob(n, { projectId: projectId(2) })))
        expect(claimedNumbers(yield* claim({ limit: 2 }))).toEqual([1, 11])
        yield* canceling(2, 4, 1, 12)
        expect((yield* claim({ limit: 0 })).nextInMs).toBe(0)
        expect(claimedNumbers(yield* claim({ limit: 2 })).toSorted((a, b) => a - b)).toEqual([3, 13])
        yield* canceling(3)
        expect((yield* claimOne()).job.id).toBe(jobId(5))
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: leaseDurationMs })
        yield* canceling(5, 11, 13)
        expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
        yield* create(newJob(6), newJob(14, { projectId: projectId(2) }))
        expect(claimedNumbers(yield* claim()).toSorted((a, b) => a - b)).toEqual([6, 14])
      }),
    ),
  ],
}

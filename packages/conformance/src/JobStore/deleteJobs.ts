import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { jobBlobPrefix, uploadBlobPrefix } from "@kiln/core/domain"
import { JobStore, UploadStore } from "@kiln/core/ports"
import {
  advance,
  claimOne,
  complete,
  create,
  createAndClaim,
  createDone,
  createDoneWithUpload,
  createFailed,
  duePurges,
  exists,
  findFile,
  read,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { fileId, jobId, newJob, outputFile, ownerOf, uploadId } from "../fixtures.ts"
import { retentionPerKind } from "./retentionPerKind.ts"

const prefixes = (purges: ReadonlyArray<{ readonly blobPrefix: string }>) =>
  purges.map((purge) => purge.blobPrefix).toSorted()

/** Jobs 1 to 3, finished at 1,000, 2,000 and 3,000. */
const finishThree = Effect.gen(function* () {
  yield* advance(1_000)
  const one = yield* createDone(newJob(1), 1)
  yield* advance(1_000)
  const two = yield* createFailed(newJob(2))
  yield* advance(1_000)
  return [one, two, yield* createDone(newJob(3), 3)] as const
})

/** Job `n`, which waited for 5,000 ms, ran for 2,000 ms, and finished then. */
const finishLate = Effect.fnUntraced(function* (n: number) {
  yield* create(newJob(n))
  yield* advance(5_000)
  const claimed = yield* claimOne()
  yield* advance(2_000)
  const done = yield* complete(claimed, { files: [outputFile(claimed, n)] })
  expect(done).toMatchObject({ createdAt: 0, finishedAt: 7_000 })
  return done
})

export const deleteJobs: Section = {
  name: "JobStore.deleteJobs",
  checks: [
    check(
      "removes records of jobs finished long enough ago, to the millisecond, with all their data",
      Effect.gen(function* () {
        const store = yield* JobStore
        const uploads = yield* UploadStore
        const done = yield* createDoneWithUpload(1)
        yield* advance(9_999)
        expect(yield* store.deleteJobs(10_000, 10)).toEqual({ count: 0, purges: [] })
        expect(yield* read(done)).toEqual(done)
        yield* advance(1)
        const { count, purges } = yield* store.deleteJobs(10_000, 10)
        expect([count, prefixes(purges)]).toEqual([1, [jobBlobPrefix(jobId(1)), uploadBlobPrefix(uploadId(1))]])
        expect(yield* exists(done)).toBe(false)
        expect(yield* findFile(fileId(1))).toBe(undefined)
        expect(yield* uploads.findUpload(uploadId(1))).toBe(undefined)
        expect(yield* store.eraseJobs([{ jobId: done.id, principal: ownerOf(done) }])).toEqual([{ _tag: "NotFound" }])
        expect((yield* duePurges).toSorted()).toEqual([jobBlobPrefix(jobId(1)), uploadBlobPrefix(uploadId(1))])
      }),
    ),

    check(
      "a record's age counts from the job's end, however long the job waited and ran",
      Effect.gen(function* () {
        const store = yield* JobStore
        const done = yield* finishLate(1)
        expect(yield* store.deleteJobs(1, 10)).toEqual({ count: 0, purges: [] })
        yield* advance(9_999)
        expect(yield* store.deleteJobs(10_000, 10)).toEqual({ count: 0, purges: [] })
        expect(yield* read(done)).toEqual(done)
        yield* advance(1)
        expect((yield* store.deleteJobs(10_000, 10)).count).toBe(1)
        expect(yield* exists(done)).toBe(false)
      }),
    ),

    check(
      "the oldest first, up to the limit",
      Effect.gen(function* () {
        const store = yield* JobStore
        const jobs = yield* finishThree
        expect((yield* store.deleteJobs(0, 0)).count).toBe(0)
        expect((yield* store.deleteJobs(0, 2)).count).toBe(2)
        expect(yield* Effect.forEach(jobs, exists)).toEqual([false, false, true])
        expect((yield* store.deleteJobs(0, 2)).count).toBe(1)
      }),
    ),

    check(
      "erased data is not purged again, but its purge stays due until confirmed",
      Effect.gen(function* () {
        const store = yield* JobStore
        const done = yield* createDone(newJob(1))
        const other = yield* createDone(newJob(2), 2)
        yield* store.eraseJobs([done, other].map((job) => ({ jobId: job.id, principal: ownerOf(job) })))
        yield* store.confirmPurges([{ blobPrefix: jobBlobPrefix(done.id) }])
        expect(yield* store.deleteJobs(0, 10)).toEqual({ count: 2, purges: [] })
        expect(yield* duePurges).toEqual([jobBlobPrefix(other.id)])
      }),
    ),

    check(
      "never removes an unfinished job",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2))
        yield* claimOne()
        yield* advance(1_000_000)
        expect((yield* store.deleteJobs(0, 10)).count).toBe(0)
        expect([yield* exists(newJob(1)), yield* exists(newJob(2))]).toEqual([true, true])
      }),
    ),

    check(
      "a worker whose job's record was deleted has lost its lease",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claimed = yield* createAndClaim()
        yield* complete(claimed)
        yield* store.deleteJobs(0, 10)
        expect(yield* store.releaseJobs([{ jobId: jobId(1), token: claimed.token }])).toEqual(["LeaseLost"])
        expect(yield* exists(newJob(1))).toBe(false)
      }),
    ),

    ...retentionPerKind("deleteJobs"),
  ],
}

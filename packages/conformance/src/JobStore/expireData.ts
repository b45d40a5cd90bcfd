import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { jobBlobPrefix, uploadBlobPrefix } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
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
  findFile,
  read,
  readUpload,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { fileId, jobId, newJob, outputFile, ownerOf, uploadId } from "../fixtures.ts"
import { retentionPerKind } from "./retentionPerKind.ts"

const prefixes = (purges: ReadonlyArray<{ readonly blobPrefix: string }>) =>
  purges.map((purge) => purge.blobPrefix).toSorted()

/** Jobs 1 to 3, finished at 1,000, 2,000 and 3,000. */
export const finishThree = Effect.gen(function* () {
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

/** Deletion by age. */
export const expireData: Section = {
  name: "JobStore.expireData",
  checks: [
    check(
      "erases what finished long enough ago, to the millisecond, and leaves the record",
      Effect.gen(function* () {
        const store = yield* JobStore
        const done = yield* createDoneWithUpload(1)
        yield* advance(9_999)
        expect(yield* store.expireData(10_000, 10)).toEqual({ count: 0, purges: [] })
        expect(yield* read(done)).toEqual(done)
        yield* advance(1)
        const { count, purges } = yield* store.expireData(10_000, 10)
        expect([count, prefixes(purges)]).toEqual([1, [jobBlobPrefix(jobId(1)), uploadBlobPrefix(uploadId(1))]])
        expect(yield* read(done)).toEqual({
          ...done,
          retained: "expired",
          request: null,
          output: null,
          files: [],
          warningCode: "data_expired",
        })
        expect(yield* findFile(fileId(1))).toBe(undefined)
        expect(yield* readUpload(1)).toMatchObject({ file: null, erased: true, jobId: jobId(1) })
        expect((yield* duePurges).toSorted()).toEqual([jobBlobPrefix(jobId(1)), uploadBlobPrefix(uploadId(1))])
        expect(yield* store.expireData(10_000, 10)).toEqual({ count: 0, purges: [] })
      }),
    ),

    check(
      "the age of data counts from the job's end, however long the job waited and ran",
      Effect.gen(function* () {
        const store = yield* JobStore
        const done = yield* finishLate(1)
        expect(yield* store.expireData(1, 10)).toEqual({ count: 0, purges: [] })
        yield* advance(9_999)
        expect(yield* store.expireData(10_000, 10)).toEqual({ count: 0, purges: [] })
        expect(yield* read(done)).toEqual(done)
        yield* advance(1)
        expect((yield* store.expireData(10_000, 10)).count).toBe(1)
        expect((yield* read(done)).retained).toBe("expired")
      }),
    ),

    check(
      "the oldest first, up to the limit; failed jobs too",
      Effect.gen(function* () {
        const store = yield* JobStore
        const jobs = yield* finishThree
        const retained = Effect.forEach(jobs, (job) => Effect.map(read(job), (found) => found.retained))
        expect((yield* store.expireData(0, 0)).count).toBe(0)
        expect((yield* store.expireData(0, 2)).count).toBe(2)
        expect(yield* retained).toEqual(["expired", "expired", "kept"])
        expect((yield* store.expireData(0, 2)).count).toBe(1)
        expect(yield* retained).toEqual(["expired", "expired", "expired"])
      }),
    ),

    check(
      "never touches unfinished jobs or what was deleted on request",
      Effect.gen(function* () {
        const store = yield* JobStore
        const deleted = yield* createDone(newJob(1))
        yield* store.eraseJobs([{ jobId: deleted.id, principal: ownerOf(deleted) }])
        yield* create(newJob(2), newJob(3))
        yield* claimOne()
        yield* advance(1_000_000)
        const before = [yield* read(newJob(2)), yield* read(newJob(3))]
        expect(yield* store.expireData(0, 10)).toEqual({ count: 0, purges: [] })
        expect([yield* read(newJob(2)), yield* read(newJob(3))]).toEqual(before)
        expect((yield* read(deleted)).warningCode).toBe("data_deleted")
      }),
    ),

    check(
      "data_expired is stronger than the job's own warning",
      Effect.gen(function* () {
        const store = yield* JobStore
        const done = yield* complete(yield* createAndClaim(), { warningCode: "no_speech_detected" })
        yield* store.expireData(0, 10)
        expect((yield* read(done)).warningCode).toBe("data_expired")
      }),
    ),

    ...retentionPerKind("expireData"),
  ],
}

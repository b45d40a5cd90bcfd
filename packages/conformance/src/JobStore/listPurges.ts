import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { jobBlobPrefix } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import { advance, createDone, duePurges } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob, ownerOf } from "../fixtures.ts"
import { finishThree } from "./expireData.ts"

/** Purges are recorded until their removal is verified. */
export const purges: Section = {
  name: "JobStore.listPurges, nextPurges, postponePurges, hastenPurges, confirmPurges",
  checks: [
    check(
      "the oldest first, up to the limit, each once",
      Effect.gen(function* () {
        const store = yield* JobStore
        for (const job of yield* finishThree) {
          yield* advance(1)
          yield* store.eraseJobs([{ jobId: job.id, principal: ownerOf(job) }])
        }
        const all = [1, 2, 3].map((n) => ({ blobPrefix: jobBlobPrefix(jobId(n)) }))
        expect(yield* store.listPurges(0)).toEqual([])
        expect(yield* store.listPurges(2)).toEqual(all.slice(0, 2))
        expect(yield* store.listPurges(10)).toEqual(all)
        yield* store.confirmPurges(all.slice(1, 2))
        expect(yield* store.listPurges(10)).toEqual([all[0], all[2]])
      }),
    ),

    check(
      "a purge that failed is due again after a pause that doubles each time, from a minute up to an hour",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createDone(newJob(1))
        const { purges: all } = yield* store.expireData(0, 10)
        for (const minutes of [1, 2, 4, 8, 16, 32, 60, 60]) {
          expect(yield* store.nextPurges(10)).toEqual(all)
          yield* store.postponePurges(all)
          yield* advance(minutes * 60_000 - 1)
          expect(yield* store.nextPurges(10)).toEqual([])
          // It is not due: a second process that failed to remove it changes nothing.
          yield* store.postponePurges(all)
          yield* advance(1)
        }
        expect(yield* store.nextPurges(10)).toEqual(all)
        expect(yield* store.listPurges(10)).toEqual(all)
      }),
    ),

    check(
      "those that failed least often come first, of these the longest due, up to the limit",
      Effect.gen(function* () {
        const store = yield* JobStore
        for (const job of yield* finishThree) yield* store.eraseJobs([{ jobId: job.id, principal: ownerOf(job) }])
        const [one, two, three] = [1, 2, 3].map((n) => ({ blobPrefix: jobBlobPrefix(jobId(n)) }))
        if (one === undefined || two === undefined || three === undefined) return
        yield* store.postponePurges([two])
        yield* advance(1)
        yield* store.postponePurges([one])
        expect(yield* store.nextPurges(10)).toEqual([three])
        yield* advance(60_000)
        expect(yield* store.nextPurges(10)).toEqual([three, two, one])
        expect(yield* store.nextPurges(1)).toEqual([three])
        expect(yield* store.nextPurges(0)).toEqual([])
        yield* store.postponePurges([two, { blobPrefix: "jobs/unknown" }])
        expect(yield* store.nextPurges(10)).toEqual([three, one])
        yield* store.hastenPurges
        expect(yield* store.nextPurges(10)).toEqual([three, one, two])
        yield* store.confirmPurges([three, one])
        expect(yield* store.nextPurges(10)).toEqual([two])
      }),
    ),

    check(
      "confirming twice, or an unknown purge, or nothing, is a no-op",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createDone(newJob(1))
        yield* store.expireData(0, 10)
        yield* store.confirmPurges([])
        yield* store.confirmPurges([{ blobPrefix: "jobs/unknown" }])
        expect(yield* duePurges).toEqual([jobBlobPrefix(jobId(1))])
        for (let n = 0; n < 2; n++) yield* store.confirmPurges([{ blobPrefix: jobBlobPrefix(jobId(1)) }])
        expect(yield* duePurges).toEqual([])
      }),
    ),
  ],
}

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
  name: "JobStore.listPurges, confirmPurges",
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

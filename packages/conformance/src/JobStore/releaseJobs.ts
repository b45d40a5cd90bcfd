import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import { advance, claimOne, createAndClaim, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { leaseDurationMs } from "../fixtures.ts"

export const releaseJobs: Section = {
  name: "JobStore.releaseJobs",
  checks: [
    check(
      "returns the job to the queue immediately, without using a budget",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* advance(50)
        const { job, token } = yield* createAndClaim()
        yield* advance(10)
        expect(yield* store.releaseJobs([{ jobId: job.id, token }])).toEqual(["Written"])
        const after = yield* read(job)
        expectMoved(job, { event: "released", token, createdAt: 50 }, 60, after)
        expect(after).toMatchObject({
          status: "processing",
          held: false,
          failures: 0,
          lostWorkers: 0,
          claimableAt: 50,
          ranMs: 10,
        })
        expect((yield* claimOne({ maxLostWorkers: 1 })).job).toMatchObject({ attempts: 2, lostWorkers: 0 })
      }),
    ),

    check(
      "after a release past the end of the lease, the time in between counts as neither running nor waiting",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { job, token } = yield* createAndClaim()
        yield* advance(leaseDurationMs + 700)
        yield* store.releaseJobs([{ jobId: job.id, token }])
        expect(yield* read(job)).toMatchObject({ ranMs: leaseDurationMs, waitedMs: 0, lostWorkers: 0 })
      }),
    ),
  ],
}

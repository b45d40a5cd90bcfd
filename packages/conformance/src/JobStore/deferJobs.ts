import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, create, createAndClaim, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { jobId, newJob } from "../fixtures.ts"

export const deferJobs: Section = {
  name: "JobStore.deferJobs",
  checks: [
    check(
      "the job waits, and is claimable again when the delay ends, to the millisecond",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { job, token } = yield* createAndClaim()
        yield* advance(400)
        expect(yield* store.deferJobs([{ jobId: job.id, token, delayMs: 2_000, countsAsFailure: true }])).toEqual([
          "Written",
        ])
        const after = yield* read(job)
        expectMoved(job, { event: "deferred", token, delayMs: 2_000, countsAsFailure: true }, 400, after)
        expect(after).toMatchObject({
          status: "processing",
          held: false,
          failures: 1,
          lostWorkers: 0,
          ranMs: 400,
          claimableAt: 2_400,
        })
        yield* advance(1_999)
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: 1 })
        yield* advance(1)
        expect((yield* claimOne()).job).toMatchObject({
          attempts: 2,
          failures: 1,
          lostWorkers: 0,
          ranMs: 400,
          waitedMs: 2_000,
        })
      }),
    ),

    check(
      "in one batch each job waits for its own delay, and counts its own failure",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2))
        const { claims } = yield* claim({ limit: 2 })
        const items = claims.map(({ job, token }) => {
          const isFirst = job.id === jobId(1)
          return { jobId: job.id, token, delayMs: isFirst ? 5_000 : 700, countsAsFailure: isFirst }
        })
        yield* advance(100)
        expect(yield* store.deferJobs(items.toReversed())).toEqual(["Written", "Written"])
        expect(yield* read(newJob(1))).toMatchObject({ held: false, claimableAt: 5_100, failures: 1 })
        expect(yield* read(newJob(2))).toMatchObject({ held: false, claimableAt: 800, failures: 0 })
        yield* advance(700)
        expect((yield* claimOne()).job.id).toBe(jobId(2))
        expect(yield* claim()).toMatchObject({ claims: [] })
      }),
    ),

    check(
      "counts as a failure only if requested",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim()
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 0, countsAsFailure: false }])
        expect(yield* read(newJob(1))).toMatchObject({ failures: 0, lostWorkers: 0 })
      }),
    ),

    check(
      "waiting for the next attempt is bounded by the rest of the queue limit",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { limits: { queueLimitMs: 1_000, runLimitMs: 10_000 } }))
        yield* advance(300)
        const { token } = yield* claimOne()
        yield* advance(5_000)
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 60_000, countsAsFailure: true }])
        yield* advance(699)
        expect(yield* store.expireJobs(10)).toEqual([])
        yield* advance(1)
        expect(yield* store.expireJobs(10)).toHaveLength(1)
        expect(yield* read(newJob(1))).toMatchObject({ errorCode: "queue_timeout", ranMs: 5_000, waitedMs: 1_000 })
      }),
    ),
  ],
}

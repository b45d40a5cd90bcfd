import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, create, createAndClaim, openAudioGate, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { jobId, leaseDurationMs, newJob, newLiveJob, queueLimitMs } from "../fixtures.ts"

export const expireJobs: Section = {
  name: "JobStore.expireJobs",
  checks: [
    check(
      "fails a queued job at its queue limit, to the millisecond",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { limits: { queueLimitMs: 5_000, runLimitMs: 1 } }))
        yield* advance(4_999)
        expect(yield* store.expireJobs(10)).toEqual([])
        const before = yield* read(newJob(1))
        yield* advance(1)
        expect(yield* store.expireJobs(10)).toEqual([jobId(1)])
        const after = yield* read(newJob(1))
        expectMoved(before, { event: "expired" }, 5_000, after)
        expect(after).toMatchObject({ errorCode: "queue_timeout", waitedMs: 5_000, ranMs: 0, retained: "kept" })
        expect(yield* store.expireJobs(10)).toEqual([])
      }),
    ),

    check(
      "a running job is not overdue; one whose worker vanished returns to the queue and waits from then on",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { limits: { queueLimitMs: 1_000, runLimitMs: 100_000 } }))
        yield* advance(400)
        yield* claimOne()
        yield* advance(leaseDurationMs + 599)
        expect(yield* store.expireJobs(10)).toEqual([])
        expect((yield* read(newJob(1))).held).toBe(true)
        const before = yield* read(newJob(1))
        yield* advance(1)
        expect((yield* claim()).claims).toEqual([])
        expect(yield* store.expireJobs(10)).toEqual([])
        const after = yield* read(newJob(1))
        expectMoved(before, { event: "lost", createdAt: 0 }, 1_000 + leaseDurationMs, after)
        expect(after).toMatchObject({ held: false, ranMs: leaseDurationMs, waitedMs: 400, lostWorkers: 1 })
        yield* advance(599)
        expect(yield* store.expireJobs(10)).toEqual([])
        yield* advance(1)
        expect(yield* store.expireJobs(10)).toEqual([jobId(1)])
        expect(yield* read(newJob(1))).toMatchObject({ errorCode: "queue_timeout", waitedMs: 1_000, lostWorkers: 1 })
      }),
    ),

    check(
      "a job that returned to the queue is claimed next in its lane, and its former worker writes nothing",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { limits: { queueLimitMs: 1_000, runLimitMs: 100_000 } }))
        const { token } = yield* claimOne()
        yield* advance(leaseDurationMs + 1_000)
        yield* create(newJob(2))
        expect(yield* store.expireJobs(1)).toEqual([])
        expect(yield* claim({ limit: 1, maxLostWorkers: 2 })).toMatchObject({
          claims: [{ job: { id: jobId(1), attempts: 2, lostWorkers: 1, waitedMs: 0 } }],
          abandoned: [],
        })
        expect(yield* store.extendLeases([{ jobId: jobId(1), token, leaseDurationMs }])).toEqual([
          { _tag: "LeaseLost" },
        ])
        yield* advance(leaseDurationMs + 1_000)
        expect(yield* store.expireJobs(10)).toEqual([])
        const exhausted = yield* claim({ maxLostWorkers: 2 })
        expect(exhausted.abandoned).toEqual([jobId(1)])
        expect(yield* read(newJob(1))).toMatchObject({ errorCode: "attempts_exhausted", lostWorkers: 2, attempts: 2 })
      }),
    ),

    check(
      "after a clock jump of a day, no claimed job fails: its worker continues, or another claims it",
      Effect.gen(function* () {
        const store = yield* JobStore
        const day = 86_400_000
        const limits = { queueLimitMs: day, runLimitMs: 1_800_000 }
        yield* create(...[1, 2, 3, 4].map((n) => newJob(n, { limits })))
        const { claims } = yield* claim({ limit: 4 })
        const itemOf = (n: number) => {
          const claimed = claims.find(({ job }) => job.id === jobId(n))
          if (claimed === undefined) throw new Error("expected a claim")
          return { jobId: jobId(n), token: claimed.token }
        }
        yield* advance(leaseDurationMs + day)
        // Heartbeat, deferral, release: each by the worker that still holds the job.
        expect(yield* store.extendLeases([{ ...itemOf(1), leaseDurationMs }])).toEqual([
          { _tag: "Extended", leaseRemainingMs: leaseDurationMs },
        ])
        yield* store.deferJobs([{ ...itemOf(2), delayMs: 1, countsAsFailure: false }])
        yield* store.releaseJobs([itemOf(3)])
        expect(yield* store.expireJobs(10)).toEqual([])
        for (const n of [1, 2, 3, 4])
          expect(yield* read(newJob(n))).toMatchObject({ status: "processing", waitedMs: 0, ranMs: leaseDurationMs })
        yield* advance(1)
        expect((yield* claim({ limit: 4 })).claims.map(({ job }) => job.id).toSorted()).toEqual([2, 3, 4].map(jobId))
        expect(yield* store.expireJobs(10)).toEqual([])
      }),
    ),

    check(
      "a job that reached its run limit fails with `job_timeout`",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { job } = yield* createAndClaim(newJob(1, { limits: { queueLimitMs, runLimitMs: 1_000 } }))
        yield* advance(999)
        expect(yield* store.expireJobs(10)).toEqual([])
        yield* advance(1)
        expect(yield* store.expireJobs(10)).toEqual([jobId(1)])
        const after = yield* read(job)
        expectMoved(job, { event: "expired" }, 1_000, after)
        expect(after).toMatchObject({ errorCode: "job_timeout", ranMs: 1_000 })
      }),
    ),

    check(
      "sweeps every kind and mode, gated ones included, the longest overdue first, up to the limit",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        const limits = (queueLimit: number) => ({ limits: { queueLimitMs: queueLimit, runLimitMs: 1_000 } })
        yield* create(
          newJob(1, limits(300)),
          newLiveJob(2, limits(100)),
          newJob(3, { ...limits(200), kind: "image_generation" }),
          newJob(4, limits(9_000)),
        )
        yield* advance(300)
        const statuses = Effect.forEach([newJob(1), newLiveJob(2), newJob(3), newJob(4)], (job) =>
          Effect.map(read(job), ({ status }) => status),
        )
        expect(yield* store.expireJobs(0)).toEqual([])
        expect((yield* store.expireJobs(2)).toSorted()).toEqual([jobId(2), jobId(3)])
        expect(yield* statuses).toEqual(["queued", "failed", "failed", "queued"])
        expect(yield* store.expireJobs(2)).toEqual([jobId(1)])
        expect(yield* statuses).toEqual(["failed", "failed", "failed", "queued"])
      }),
    ),

    check(
      "two concurrent sweeps fail each job once",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(
          ...Array.from({ length: 20 }, (_, n) => newJob(n, { limits: { queueLimitMs: 10, runLimitMs: 10 } })),
        )
        yield* advance(10)
        const expired = yield* Effect.forEach([15, 15], (limit) => store.expireJobs(limit), {
          concurrency: "unbounded",
        })
        expect(expired.flat().toSorted()).toEqual(Array.from({ length: 20 }, (_, n) => jobId(n)))
        for (let n = 0; n < 20; n++) expect((yield* read(newJob(n))).token).toBe(1)
      }),
    ),
  ],
}

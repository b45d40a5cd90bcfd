import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, createAndClaim, first, now, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { jobId, leaseDurationMs, newJob, queueLimitMs } from "../fixtures.ts"

/** `fencing` checks for every operation on a claimed job that only its holder may do it. */
export const extendLeases: Section = {
  name: "JobStore.extendLeases",
  checks: [
    check(
      "moves the lease's end, to the millisecond, and nothing else",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { job, token } = yield* createAndClaim()
        yield* advance(leaseDurationMs - 1)
        expect(yield* store.extendLeases([{ jobId: job.id, token, leaseDurationMs: 10_000 }])).toEqual([
          { _tag: "Extended", leaseRemainingMs: 10_000 },
        ])
        const after = yield* read(job)
        expectMoved(job, { event: "extended", token, leaseDurationMs: 10_000 }, leaseDurationMs - 1, after)
        expect(after).toMatchObject({ token, attempts: 1, held: true })
        yield* advance(9_999)
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: 1 })
        yield* advance(1)
        expect((yield* claimOne()).job).toMatchObject({ lostWorkers: 1, ranMs: leaseDurationMs + 9_999, waitedMs: 0 })
      }),
    ),

    check(
      "never past the run limit",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim(newJob(1, { limits: { queueLimitMs, runLimitMs: 50_000 } }))
        const extend = Effect.map(store.extendLeases([{ jobId: jobId(1), token, leaseDurationMs }]), first)
        yield* advance(15_000)
        expect(yield* extend).toEqual({ _tag: "Extended", leaseRemainingMs: 30_000 })
        yield* advance(15_000)
        expect(yield* extend).toEqual({ _tag: "Extended", leaseRemainingMs: 20_000 })
        yield* advance(19_999)
        expect(yield* extend).toEqual({ _tag: "Extended", leaseRemainingMs: 1 })
        expect(yield* store.expireJobs(10)).toEqual([])
        yield* advance(1)
        expect((yield* claim()).claims).toEqual([])
        expect(yield* store.expireJobs(10)).toHaveLength(1)
        expect(yield* read(newJob(1))).toMatchObject({ errorCode: "job_timeout", ranMs: 50_000 })
        expect(yield* extend).toEqual({ _tag: "LeaseLost" })
      }),
    ),

    check(
      "a lease that had ended starts again, and the time in between does not count as running time",
      Effect.gen(function* () {
        const store = yield* JobStore
        const limits = { queueLimitMs, runLimitMs: leaseDurationMs + 5_000 }
        const { job, token } = yield* createAndClaim(newJob(1, { limits }))
        yield* advance(leaseDurationMs + 3_600_000)
        expect(yield* store.extendLeases([{ jobId: job.id, token, leaseDurationMs: 2_000 }])).toEqual([
          { _tag: "Extended", leaseRemainingMs: 2_000 },
        ])
        const after = yield* read(job)
        expectMoved(job, { event: "extended", token, leaseDurationMs: 2_000 }, yield* now, after)
        expect(after).toMatchObject({ token, attempts: 1, held: true, ranMs: leaseDurationMs, waitedMs: 0 })
        yield* advance(1_000)
        // 4 s of the run limit are left.
        expect(yield* store.extendLeases([{ jobId: job.id, token, leaseDurationMs }])).toEqual([
          { _tag: "Extended", leaseRemainingMs: 4_000 },
        ])
      }),
    ),

    check(
      "past the run limit, no lease is granted, and the job stays overdue",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim(newJob(1, { limits: { queueLimitMs, runLimitMs: 1_000 } }))
        yield* advance(1_500)
        expect(yield* store.extendLeases([{ jobId: jobId(1), token, leaseDurationMs }])).toEqual([
          { _tag: "Extended", leaseRemainingMs: 0 },
        ])
        expect(yield* store.expireJobs(10)).toHaveLength(1)
        expect((yield* read(newJob(1))).errorCode).toBe("job_timeout")
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Json } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, complete, create, createAndClaim, first, now, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { jobId, leaseDurationMs, newJob, queueLimitMs } from "../fixtures.ts"

/** Operations of a worker on a claimed job. `fencing` checks that only the holder may do them. */
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
      "past the run limit there is nothing left to grant, and the job stays overdue",
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

export const checkpointJobs: Section = {
  name: "JobStore.checkpointJobs",
  checks: [
    check(
      "keeps finished steps for the next attempt: after a release, a deferral, a lost worker",
      Effect.gen(function* () {
        const store = yield* JobStore
        const values: Record<string, Json> = {
          transcribe: { text: "a\u2028é😀" },
          reply: ["x", 1, null],
          speak: "s",
          constructor: 0.1,
        }
        yield* create(newJob(1))
        let expected: Record<string, Json> = {}
        for (const [step, value] of Object.entries(values)) {
          const { job, token } = yield* claimOne()
          expect(job.checkpoints).toEqual(expected)
          expect(yield* store.checkpointJobs([{ jobId: jobId(1), token, step, value }])).toEqual(["Written"])
          expected = { ...expected, [step]: value }
          const after = yield* read(newJob(1))
          expect(after.checkpoints).toEqual(expected)
          expectMoved(job, { event: "checkpointed", token }, yield* now, after)
          if (step === "transcribe") yield* store.releaseJobs([{ jobId: jobId(1), token }])
          else if (step === "reply")
            yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 0, countsAsFailure: true }])
          else yield* advance(leaseDurationMs)
        }
        expect((yield* claimOne()).job.checkpoints).toEqual(values)
      }),
    ),

    check(
      "a step may be kept again, and several in one batch",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim()
        const item = { jobId: jobId(1), token }
        yield* store.checkpointJobs([
          { ...item, step: "a", value: 1 },
          { ...item, step: "b", value: 2 },
          { ...item, step: "a", value: 3 },
        ])
        expect((yield* read(newJob(1))).checkpoints).toEqual({ a: 3, b: 2 })
      }),
    ),

    check(
      "every end of the job clears them",
      Effect.gen(function* () {
        const store = yield* JobStore
        const limits = { queueLimitMs: 100_000, runLimitMs: 100_000 }
        yield* create(newJob(1), newJob(2), newJob(3, { limits }), newJob(4))
        const { claims } = yield* claim({ limit: 4 })
        yield* store.checkpointJobs(
          claims.map(({ job, token }) => ({ jobId: job.id, token, step: "a", value: "secret" })),
        )
        const [one, two] = claims
        if (one === undefined || two === undefined) throw new Error("expected claims")
        yield* complete(one)
        yield* store.failJobs([{ jobId: two.job.id, token: two.token, errorCode: "provider_rejected" }])
        yield* advance(leaseDurationMs)
        expect((yield* claim({ maxLostWorkers: 1 })).abandoned).toHaveLength(2)
        for (const n of [1, 2, 3, 4]) expect((yield* read(newJob(n))).checkpoints).toEqual({})
        const five = yield* createAndClaim(newJob(5, { limits }))
        yield* store.checkpointJobs([{ jobId: jobId(5), token: five.token, step: "a", value: "secret" }])
        yield* advance(200_000)
        expect(yield* store.expireJobs(10)).toEqual([])
        expect((yield* read(newJob(5))).checkpoints, "not when it is taken back").toEqual({ a: "secret" })
        yield* advance(100_000)
        expect(yield* store.expireJobs(10)).toHaveLength(1)
        expect((yield* read(newJob(5))).checkpoints).toEqual({})
      }),
    ),
  ],
}

export const deferJobs: Section = {
  name: "JobStore.deferJobs",
  checks: [
    check(
      "the job is claimable again when the delay is over, to the millisecond, and waits meanwhile",
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
      "counts as a failure only when asked to",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim()
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 0, countsAsFailure: false }])
        expect(yield* read(newJob(1))).toMatchObject({ failures: 0, lostWorkers: 0 })
      }),
    ),

    check(
      "waiting for the next try is bounded by what is left of the queue limit",
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

export const releaseJobs: Section = {
  name: "JobStore.releaseJobs",
  checks: [
    check(
      "gives the job back at once, and costs nothing",
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
      "given back after its lease ended, the rest counts as neither running nor waiting",
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

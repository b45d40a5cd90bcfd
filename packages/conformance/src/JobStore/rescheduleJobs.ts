import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Priority } from "@kiln/core/domain"
import { JobDirectory, JobStore, type RescheduleOutcome } from "@kiln/core/ports"
import { advance, claim, claimedNumbers, create, createAndClaim, createDone, first, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { jobId, leaseDurationMs, newJob, projectId, queueLimitMs } from "../fixtures.ts"

const rescheduling = Effect.fnUntraced(function* (...items: ReadonlyArray<readonly [n: number, delayMs: number]>) {
  const store = yield* JobStore
  return yield* store.rescheduleJobs(items.map(([n, delayMs]) => ({ jobId: jobId(n), delayMs })))
})

const prioritizing = Effect.fnUntraced(function* (...items: ReadonlyArray<readonly [n: number, priority: Priority]>) {
  const store = yield* JobStore
  return yield* store.rescheduleJobs(items.map(([n, priority]) => ({ jobId: jobId(n), priority })))
})

/** An operator changes when waiting jobs may start, and their priority. */
export const rescheduleJobs: Section = {
  name: "JobStore.rescheduleJobs",
  checks: [
    check(
      "makes a delayed job claimable at once, and its waiting time begins then",
      Effect.gen(function* () {
        const before = first(yield* create(newJob(1, { delayMs: 60_000 })))
        yield* advance(40)
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: 59_960 })
        expect(yield* rescheduling([1, 0])).toEqual(["Rescheduled"])
        const after = yield* read(newJob(1))
        expectMoved(before, { event: "rescheduled", at: 40 }, 40, after)
        expect(after).toMatchObject({ status: "queued", token: 0, waitedMs: 0, claimableAt: 40 })
        expect(after.deadlineAt).toBe(40 + queueLimitMs)
        expect(claimedNumbers(yield* claim())).toEqual([1])
      }),
    ),

    check(
      "makes the next attempt of a job claimable at once",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim(newJob(1))
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 30_000, countsAsFailure: true }])
        const before = yield* read(newJob(1))
        yield* advance(100)
        expect(yield* claim()).toMatchObject({ claims: [] })
        expect(yield* rescheduling([1, 0])).toEqual(["Rescheduled"])
        const after = yield* read(newJob(1))
        expectMoved(before, { event: "rescheduled", at: 100 }, 100, after)
        expect(after).toMatchObject({ status: "processing", failures: 1, waitedMs: 100, token: token + 1 })
        // The answer of the deferral may have been lost: a repeat still changes nothing.
        expect(yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 30_000, countsAsFailure: true }])).toEqual([
          "Written",
        ])
        expect(yield* read(newJob(1))).toEqual(after)
        expect(claimedNumbers(yield* claim())).toEqual([1])
      }),
    ),

    check(
      "changes only a job that has had no attempt, if that is asked for",
      Effect.gen(function* () {
        const store = yield* JobStore
        const later = (n: number) => ({ jobId: jobId(n), delayMs: 5_000, queuedOnly: true })
        const { token } = yield* createAndClaim(newJob(1))
        yield* create(newJob(2))
        expect(yield* store.rescheduleJobs([later(1), later(2)])).toEqual(["Started", "Rescheduled"])
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 1_000, countsAsFailure: true }])
        const waiting = yield* read(newJob(1))
        expect(yield* store.rescheduleJobs([later(1)])).toEqual(["Started"])
        expect(yield* read(newJob(1))).toEqual(waiting)
        expect(yield* read(newJob(2))).toMatchObject({ status: "queued", claimableAt: 5_000 })
        yield* store.cancelJobs([jobId(1)])
        expect(yield* store.rescheduleJobs([later(1), later(9)])).toEqual(["AlreadyFinished", "NotFound"])
      }),
    ),

    check(
      "moves a job to a later time, sooner or later than before, until when it is not claimed and does not expire",
      Effect.gen(function* () {
        const store = yield* JobStore
        const before = first(yield* create(newJob(1)))
        yield* advance(50)
        expect(yield* rescheduling([1, queueLimitMs * 2])).toEqual(["Rescheduled"])
        const later = yield* read(newJob(1))
        expectMoved(before, { event: "rescheduled", at: 50 + queueLimitMs * 2 }, 50, later)
        expect(later.waitedMs).toBe(50)
        yield* advance(queueLimitMs)
        expect(yield* store.expireJobs(10)).toEqual([])
        expect((yield* claim()).nextInMs).toBe(queueLimitMs)
        expect(yield* rescheduling([1, 500])).toEqual(["Rescheduled"])
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: 500 })
        yield* advance(499)
        expect((yield* claim()).claims).toEqual([])
        yield* advance(1)
        expect(claimedNumbers(yield* claim())).toEqual([1])
      }),
    ),

    check(
      "never touches a job that a worker holds, even one whose lease has ended",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim(newJob(1))
        const held = yield* read(newJob(1))
        expect(yield* rescheduling([1, 0], [1, 5_000])).toEqual(["Held", "Held"])
        yield* advance(leaseDurationMs)
        expect(yield* rescheduling([1, 0])).toEqual(["Held"])
        expect(yield* read(newJob(1))).toEqual(held)
        expect(yield* store.releaseJobs([{ jobId: jobId(1), token }])).toEqual(["Written"])
      }),
    ),

    check(
      "leaves a parked job parked",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim(newJob(1))
        const park = { reason: "signal", subject: "approved" } as const
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 0, countsAsFailure: false, park }])
        const parked = yield* read(newJob(1))
        expect(yield* rescheduling([1, 0], [1, 5])).toEqual(["Parked", "Parked"])
        expect(yield* read(newJob(1))).toEqual(parked)
        yield* store.signalJobs([{ jobId: jobId(1), name: "approved", value: 1 }])
        // It is over: the job waits for a worker only.
        expect(yield* rescheduling([1, 0])).toEqual(["Ready"])
        expect(claimedNumbers(yield* claim())).toEqual([1])
      }),
    ),

    check(
      "reports ready, finished and unknown jobs as such, and changes none of them",
      Effect.gen(function* () {
        const done = yield* createDone(newJob(1))
        const ready = first(yield* create(newJob(2)))
        yield* create(newJob(3, { projectId: projectId(2), delayMs: 900 }))
        yield* advance(5)
        expect(yield* rescheduling([1, 0], [9, 0], [3, 0], [2, 0])).toEqual<ReadonlyArray<RescheduleOutcome>>([
          "AlreadyFinished",
          "NotFound",
          "Rescheduled",
          "Ready",
        ])
        expect(yield* rescheduling([3, 0])).toEqual(["Ready"])
        expect(yield* read(newJob(1))).toEqual(done)
        expect(yield* read(newJob(2))).toEqual(ready)
        expect(yield* rescheduling()).toEqual([])
      }),
    ),

    check(
      "does not revive a job that is out of time",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { limits: { queueLimitMs: 10, runLimitMs: 10 } }))
        yield* advance(10)
        expect(yield* rescheduling([1, 5_000])).toEqual(["AlreadyFinished"])
        expect(yield* store.expireJobs(10)).toEqual([jobId(1)])
        expect((yield* read(newJob(1))).errorCode).toBe("queue_timeout")
      }),
    ),

    check(
      "applies the items of a batch one after the other",
      Effect.gen(function* () {
        yield* create(newJob(1, { delayMs: 60_000 }))
        expect(yield* rescheduling([1, 7_000], [1, 0], [1, 0], [1, 3_000])).toEqual([
          "Rescheduled",
          "Rescheduled",
          "Ready",
          "Rescheduled",
        ])
        expect(yield* read(newJob(1))).toMatchObject({ claimableAt: 3_000, phaseStartedAt: 3_000, waitedMs: 0 })
        expect((yield* claim()).nextInMs).toBe(3_000)
      }),
    ),

    check(
      "keeps the order: promoted jobs come after those that were ready, within their priority",
      Effect.gen(function* () {
        yield* create(newJob(1, { delayMs: 60_000 }))
        yield* create(newJob(2, { delayMs: 60_000, priority: "high" }))
        yield* create(newJob(3), newJob(4))
        yield* advance(10)
        yield* rescheduling([1, 0], [2, 0], [3, 2_000])
        yield* advance(1)
        yield* create(newJob(5))
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([2])
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([4])
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([1])
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([5])
        yield* advance(1_999)
        expect(claimedNumbers(yield* claim())).toEqual([3])
      }),
    ),

    check(
      "changes the priority of a waiting job, by which the next claim goes, and nothing else",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2), newJob(3), newJob(4, { delayMs: 500 }))
        const [before, delayed] = [yield* read(newJob(3)), yield* read(newJob(4))]
        yield* advance(10)
        expect(yield* prioritizing([1, "low"], [3, 4], [4, "urgent"])).toEqual(Array(3).fill("Rescheduled"))
        expect(yield* read(newJob(3))).toEqual({ ...before, priority: 4 })
        expect(yield* read(newJob(4))).toEqual({ ...delayed, priority: "urgent" })
        const { jobs } = yield* (yield* JobDirectory).listJobs({ limit: 10 })
        const listed = new Map(jobs.map(({ id, priority }) => [id, priority]))
        expect([1, 2, 3, 4].map((n) => listed.get(jobId(n)))).toEqual(["low", "normal", 4, "urgent"])
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([3])
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([2])
        yield* advance(490)
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([4])
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([1])
        expect((yield* read(newJob(3))).priority).toBe(4)
      }),
    ),

    check(
      "changes priority and start together, in the order of the items",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { delayMs: 60_000 }), newJob(2))
        const both = { jobId: jobId(1), delayMs: 0, priority: "high" } as const
        expect(yield* store.rescheduleJobs([both, both, { ...both, priority: "low" }, { ...both }])).toEqual([
          "Rescheduled",
          "Ready",
          "Rescheduled",
          "Rescheduled",
        ])
        expect(yield* read(newJob(1))).toMatchObject({ priority: "high", claimableAt: 0 })
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([1])
      }),
    ),

    check(
      "changes the priority of a parked job and of one between two attempts, and of no other",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim(newJob(1))
        const park = { reason: "signal", subject: "approved" } as const
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 0, countsAsFailure: false, park }])
        const parked = yield* read(newJob(1))
        expect(yield* prioritizing([1, "high"], [1, "high"])).toEqual(["Rescheduled", "Unchanged"])
        expect(yield* read(newJob(1))).toEqual({ ...parked, priority: "high" })
        const held = yield* createAndClaim(newJob(2))
        expect(yield* prioritizing([2, "high"])).toEqual(["Held"])
        expect((yield* read(newJob(2))).priority).toBe("normal")
        yield* store.deferJobs([{ jobId: jobId(2), token: held.token, delayMs: 5_000, countsAsFailure: true }])
        expect(yield* prioritizing([2, "low"])).toEqual(["Rescheduled"])
        const done = yield* createDone(newJob(3))
        expect(yield* prioritizing([3, "high"], [9, "high"])).toEqual(["AlreadyFinished", "NotFound"])
        expect(yield* read(newJob(3))).toEqual(done)
        expect(yield* store.rescheduleJobs([{ jobId: jobId(2) }])).toEqual(["Unchanged"])
      }),
    ),

    check(
      "of a claim and a rescheduling at the same time, the job is never both held and moved",
      Effect.gen(function* () {
        yield* create(newJob(1))
        const [claimed, [outcome]] = yield* Effect.all([claim(), rescheduling([1, 60_000])], {
          concurrency: "unbounded",
        })
        const job = yield* read(newJob(1))
        expect({ held: job.held, outcome }).toEqual(
          claimed.claims.length === 1 ? { held: true, outcome: "Held" } : { held: false, outcome: "Rescheduled" },
        )
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { created } from "@kiln/core/rules"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, claimedNumbers, claimOne, create, createTags, first, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved, stateOf } from "../expectations.ts"
import { jobId, leaseDurationMs, newJob, projectId, queueLimitMs, runLimitMs } from "../fixtures.ts"

const limits = { queueLimitMs: 1_000, runLimitMs }

/** Delayed jobs. */
export const delay: Section = {
  name: "JobStore.createJobs: delay",
  checks: [
    check(
      "a delayed job is queued and claimable from its time on, to the millisecond",
      Effect.gen(function* () {
        yield* advance(7)
        const job = first(yield* create(newJob(1, { delayMs: 500 })))
        expect(stateOf(job)).toEqual(created(7, { queueLimitMs, runLimitMs }, 500))
        expect(job).toMatchObject({ status: "queued", createdAt: 7, claimableAt: 507 })
        expect(yield* read(newJob(1))).toEqual(job)
        expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: 500 })
        yield* advance(499)
        expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: 1 })
        yield* advance(1)
        const claimed = yield* claimOne()
        expectMoved(job, { event: "claimed", leaseDurationMs }, 507, claimed.job)
        expect(claimed.job, "its delay does not count as waiting").toMatchObject({ waitedMs: 0 })
      }),
    ),

    check(
      "`nextInMs` is the nearest delay among the jobs that this worker can run",
      Effect.gen(function* () {
        yield* create(newJob(1, { delayMs: 900 }), newJob(2, { delayMs: 300, projectId: projectId(2) }))
        yield* create(newJob(3, { delayMs: 100, kind: "transcription" }))
        const speech = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }] as const
        expect((yield* claim({ runnable: speech })).nextInMs).toBe(300)
        expect((yield* claim()).nextInMs).toBe(100)
      }),
    ),

    check(
      "a job in a call of its own is claimable at once, although its lane waits for a later one",
      Effect.gen(function* () {
        yield* create(newJob(1, { delayMs: 900 }))
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: 900 })
        yield* create(newJob(2, { delayMs: 300 }))
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: 300 })
        yield* create(newJob(3))
        expect(claimedNumbers(yield* claim())).toEqual([3])
      }),
    ),

    check(
      "delayed jobs queue behind jobs that already wait",
      Effect.gen(function* () {
        yield* create(newJob(1, { delayMs: 20 }), newJob(2, { delayMs: 10 }))
        yield* advance(10)
        yield* create(newJob(3))
        yield* advance(5)
        yield* create(newJob(4))
        yield* advance(5)
        yield* create(newJob(5))
        expect(claimedNumbers(yield* claim())).toEqual([2, 3, 4, 1, 5])
      }),
    ),

    check(
      "a delayed job blocks neither its lane nor others",
      Effect.gen(function* () {
        yield* create(...Array.from({ length: 200 }, (_, n) => newJob(n, { delayMs: 60_000 })))
        yield* create(newJob(500), newJob(501, { kind: "transcription" }), newJob(502, { projectId: projectId(2) }))
        expect(new Set(claimedNumbers(yield* claim({ limit: 9 })))).toEqual(new Set([500, 501, 502]))
      }),
    ),

    check(
      "counts as unfinished from the beginning",
      Effect.gen(function* () {
        yield* create(newJob(1, { delayMs: 60_000 }))
        expect(yield* createTags(newJob(2, { queueCap: 1 }))).toEqual(["QueueFull"])
      }),
    ),

    check(
      "the queue limit counts from its start",
      Effect.gen(function* () {
        const store = yield* JobStore
        const before = first(yield* create(newJob(1, { delayMs: 5_000, limits })))
        yield* advance(5_999)
        expect(yield* store.expireJobs(10)).toEqual([])
        yield* advance(1)
        expect((yield* claim()).claims).toEqual([])
        expect(yield* store.expireJobs(10)).toEqual([jobId(1)])
        const after = yield* read(newJob(1))
        expectMoved(before, { event: "expired" }, 6_000, after)
        expect(after).toMatchObject({ errorCode: "queue_timeout", waitedMs: 1_000, ranMs: 0 })
      }),
    ),

    check(
      "after the delay it behaves like any other job: released to its place, deferred from now on",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { delayMs: 100 }))
        yield* advance(100)
        const one = yield* claimOne()
        yield* store.releaseJobs([{ jobId: jobId(1), token: one.token }])
        const two = yield* claimOne()
        expectMoved(yield* read(newJob(1)), { event: "checkpointed", token: two.token }, 100, two.job)
        yield* advance(30)
        yield* store.deferJobs([{ jobId: jobId(1), token: two.token, delayMs: 50, countsAsFailure: true }])
        expect((yield* claim()).nextInMs).toBe(50)
        expect(yield* read(newJob(1))).toMatchObject({ claimableAt: 180, waitedMs: 0, ranMs: 30 })
      }),
    ),

    check(
      "can be canceled while it is delayed, with no waiting time",
      Effect.gen(function* () {
        const store = yield* JobStore
        const before = first(yield* create(newJob(1, { delayMs: 5_000, limits })))
        yield* advance(1_000)
        expect(yield* store.cancelJobs([jobId(1)])).toEqual(["Canceled"])
        const after = yield* read(newJob(1))
        expectMoved(before, { event: "canceled" }, 1_000, after)
        expect(after).toMatchObject({ finishedAt: 1_000, waitedMs: 0, ranMs: 0 })
        yield* advance(10_000)
        expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
        expect(yield* store.expireJobs(10)).toEqual([])
      }),
    ),
  ],
}

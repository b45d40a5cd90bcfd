import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, type NewJob, Switchboard } from "@kiln/core/ports"
import {
  advance,
  claim,
  claimedNumbers,
  claimOne,
  complete,
  create,
  createAndClaim,
  createDone,
  createUploaded,
  first,
  openAudioGate,
  read,
  runnable,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { jobId, leaseDurationMs, newJob, newLiveJob, newUploadJob, projectId, queueLimitMs } from "../fixtures.ts"

/** Claiming jobs. Lost workers and fairness have separate files. */
export const claimJobs: Section = {
  name: "JobStore.claimJobs",
  checks: [
    check(
      "returns a queued job with a lease and a token",
      Effect.gen(function* () {
        const before = first(yield* create(newJob(1)))
        yield* advance(500)
        const result = yield* claim()
        const claimed = first(result.claims)
        expect(result).toMatchObject({ abandoned: [], nextInMs: leaseDurationMs })
        expect(claimed).toMatchObject({ token: 1, leaseRemainingMs: leaseDurationMs, upload: null })
        expect(claimed.job).toMatchObject({
          status: "processing",
          held: true,
          token: 1,
          attempts: 1,
          failures: 0,
          lostWorkers: 0,
          waitedMs: 500,
        })
        expectMoved(before, { event: "claimed", leaseDurationMs }, 500, claimed.job)
        expect(yield* read(newJob(1))).toEqual(claimed.job)
      }),
    ),

    check(
      "stores the jobs of one claim as it returns them, whatever each has waited and run before",
      Effect.gen(function* () {
        const store = yield* JobStore
        const runLimitMs = leaseDurationMs - 100
        yield* create(
          newJob(1),
          newJob(2, { delayMs: 40 }),
          newJob(3, { limits: { queueLimitMs, runLimitMs } }),
          newJob(4, { limits: { queueLimitMs: 200, runLimitMs: leaseDurationMs } }),
        )
        for (const delayMs of [0, 30, 60]) {
          yield* advance(50)
          const { claims } = yield* claim()
          expect(claims).toHaveLength(4)
          for (const { job } of claims) expect(yield* read(job)).toEqual(job)
          yield* advance(20)
          const refs = claims.map(({ job, token }) => ({ jobId: job.id, token }))
          const back = refs.slice(0, 2).map((ref) => ({ ...ref, delayMs, countsAsFailure: false }))
          yield* store.deferJobs(back)
          yield* store.releaseJobs(refs.slice(2))
          yield* advance(delayMs)
        }
      }),
    ),

    check(
      "includes the upload",
      Effect.gen(function* () {
        const upload = yield* createUploaded(1)
        yield* create(newUploadJob(1))
        expect((yield* claimOne()).upload).toEqual({ ...upload, jobId: jobId(1) })
      }),
    ),

    check(
      "no other worker gets a claimed job until its lease ends, to the millisecond",
      Effect.gen(function* () {
        const zombie = yield* createAndClaim()
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: leaseDurationMs })
        yield* advance(leaseDurationMs - 1)
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: 1 })
        yield* advance(1)
        const second = yield* claimOne()
        expect(second).toMatchObject({ token: 2, leaseRemainingMs: leaseDurationMs })
        expectMoved(zombie.job, { event: "claimed", leaseDurationMs }, leaseDurationMs, second.job)
        expect(second.job).toMatchObject({ attempts: 2, lostWorkers: 1, ranMs: leaseDurationMs })
      }),
    ),

    check(
      "every claim's token is higher than all before",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        let last = 0
        for (let n = 0; n < 5; n++) {
          const { token } = yield* claimOne({ maxLostWorkers: 100 })
          expect(token).toBeGreaterThan(last)
          last = token
          if (n % 2 === 0) yield* store.releaseJobs([{ jobId: jobId(1), token }])
          else yield* advance(leaseDurationMs)
        }
      }),
    ),

    check(
      "claims only jobs that this worker can run",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* create(newJob(1), newLiveJob(2), newJob(3, { kind: "image_generation" }))
        expect(yield* claim({ runnable: [] })).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
        expect(yield* claim({ runnable: [{ kind: "transcription", kindVersion: 1, mode: "sandbox" }] })).toEqual({
          claims: [],
          abandoned: [],
          nextInMs: undefined,
        })
        expect(
          claimedNumbers(yield* claim({ runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "live" }] })),
        ).toEqual([2])
        expect(
          claimedNumbers(yield* claim({ runnable: [{ kind: "image_generation", kindVersion: 1, mode: "sandbox" }] })),
        ).toEqual([3])
        expect(
          claimedNumbers(yield* claim({ runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }] })),
        ).toEqual([1])
      }),
    ),

    check(
      "returns each job once, even if a kind is named twice",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2))
        expect(claimedNumbers(yield* claim({ runnable: [...runnable, ...runnable] }))).toEqual([1, 2])
      }),
    ),

    check(
      "never claims more than the limit, and reports that there is more",
      Effect.gen(function* () {
        yield* create(...[1, 2, 3, 4, 5].map((n) => newJob(n)))
        expect(yield* claim({ limit: 0 })).toEqual({ claims: [], abandoned: [], nextInMs: 0 })
        const two = yield* claim({ limit: 2 })
        expect([claimedNumbers(two), two.nextInMs]).toEqual([[1, 2], 0])
        const three = yield* claim({ limit: 3 })
        expect([claimedNumbers(three), three.nextInMs]).toEqual([[3, 4, 5], leaseDurationMs])
      }),
    ),

    check(
      "`nextInMs` is the next end of a lease or delay among the runnable jobs",
      Effect.gen(function* () {
        const store = yield* JobStore
        expect((yield* claim()).nextInMs).toBe(undefined)
        const one = yield* createAndClaim(newJob(1))
        const other = yield* createAndClaim(newJob(2, { kind: "transcription" }))
        yield* store.deferJobs([{ jobId: jobId(1), token: one.token, delayMs: 700, countsAsFailure: true }])
        yield* store.deferJobs([{ jobId: jobId(2), token: other.token, delayMs: 200, countsAsFailure: true }])
        expect((yield* claim()).nextInMs).toBe(200)
        expect(
          (yield* claim({ runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }] })).nextInMs,
        ).toBe(700)
        yield* advance(699)
        expect(
          (yield* claim({ runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }] })).nextInMs,
        ).toBe(1)
      }),
    ),

    check(
      "`nextInMs` is that of the first lane, where several have something now and several later",
      Effect.gen(function* () {
        const delayed = (n: number, delayMs: number, overrides: Partial<NewJob> = {}) =>
          newJob(n, { projectId: projectId(n), delayMs, ...overrides })
        yield* create(delayed(1, 0), delayed(2, 0), delayed(3, 9_000), delayed(4, 5_000), delayed(5, 7_000))
        yield* create(delayed(6, 1_000, { kind: "image_generation" }), delayed(7, 2_000, { kindVersion: 2 }))
        const both = yield* claim()
        expect([claimedNumbers(both), both.nextInMs]).toEqual([[1, 2], 5_000])
      }),
    ),

    check(
      "`nextInMs` does not count the end of a lease at which the job is out of time",
      Effect.gen(function* () {
        yield* create(newJob(1, { limits: { queueLimitMs, runLimitMs: 1_000 } }))
        expect(yield* claim()).toMatchObject({ claims: [{ leaseRemainingMs: 1_000 }], nextInMs: undefined })
        expect((yield* claim()).nextInMs).toBe(undefined)
      }),
    ),

    check(
      "each job comes with its own request, also a long one",
      Effect.gen(function* () {
        const jobs = [1, 2, 3].map((n) => newJob(n, { request: { input: `job ${n} `.repeat(n * 100) } }))
        yield* create(...jobs)
        const { claims } = yield* claim()
        expect(claims.map(({ job }) => job.request)).toEqual(jobs.map(({ request }) => request))
      }),
    ),

    check(
      "`nextInMs` is undefined when nothing is waiting",
      Effect.gen(function* () {
        yield* createDone(newJob(1))
        expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
      }),
    ),

    check(
      "`nextInMs` is never 0 for jobs that cannot be claimed",
      Effect.gen(function* () {
        yield* create(newJob(1, { limits: { queueLimitMs: 1_000, runLimitMs: 1_000 } }))
        yield* advance(1_000)
        const { claims, nextInMs } = yield* claim()
        expect(claims).toEqual([])
        expect(nextInMs).not.toBe(0)
      }),
    ),

    check(
      "does not claim a job whose deadline has passed",
      Effect.gen(function* () {
        const limits = { queueLimitMs: 1_000, runLimitMs: 1_000 }
        yield* create(newJob(1, { limits }), newJob(2, { limits }))
        yield* advance(999)
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([1])
        yield* advance(1)
        expect((yield* claim()).claims).toEqual([])
        expect((yield* read(newJob(2))).status).toBe("queued")
      }),
    ),

    check(
      "does not claim finished jobs",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createDone(newJob(1))
        const { token } = yield* createAndClaim(newJob(2))
        yield* store.failJobs([{ jobId: jobId(2), token, errorCode: "internal_error" }])
        yield* advance(queueLimitMs)
        expect((yield* claim()).claims).toEqual([])
      }),
    ),

    check(
      "cuts a lease at the run limit, the sum over all attempts",
      Effect.gen(function* () {
        const store = yield* JobStore
        const limits = { queueLimitMs, runLimitMs: 1_000 }
        const one = yield* createAndClaim(newJob(1, { limits }), { leaseDurationMs: 900 })
        expect(one.leaseRemainingMs).toBe(900)
        yield* advance(600)
        yield* store.deferJobs([{ jobId: jobId(1), token: one.token, delayMs: 50, countsAsFailure: true }])
        yield* advance(50)
        const two = yield* claimOne({ leaseDurationMs: 900 })
        expect(two.leaseRemainingMs).toBe(400)
        expect(two.job).toMatchObject({ ranMs: 600, waitedMs: 50, claimableAt: 1_050, deadlineAt: 1_050 })
        yield* advance(400)
        expect((yield* claim()).claims).toEqual([])
        expect(yield* store.expireJobs(10)).toHaveLength(1)
        expect(yield* read(newJob(1))).toMatchObject({
          status: "failed",
          errorCode: "job_timeout",
          ranMs: 1_000,
          waitedMs: 50,
        })
      }),
    ),

    check(
      "concurrent workers get each job exactly once",
      Effect.gen(function* () {
        yield* create(...Array.from({ length: 40 }, (_, n) => newJob(n, { projectId: projectId(n % 3) })))
        const results = yield* Effect.forEach(Array.from({ length: 15 }), () => claim({ limit: 3 }), {
          concurrency: "unbounded",
        })
        const numbers = results.flatMap(claimedNumbers)
        expect(numbers).toHaveLength(40)
        expect(new Set(numbers).size).toBe(40)
        for (const result of results) expect(result.claims.length).toBeLessThanOrEqual(3)
      }),
    ),

    check(
      "ignores switches and pauses: the worker decides whether to run",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        yield* create(newLiveJob(1))
        yield* board.activatePrice("svc-audio", false)
        yield* board.pauseKind("speech_synthesis", true)
        yield* complete(yield* claimOne())
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, claimedNumbers, claimOne, create, createAndClaim, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { jobId, leaseDurationMs, newJob } from "../fixtures.ts"

/** A job that kills its workers ends, and lost workers are counted separately from failures. */
export const claimJobsLostWorkers: Section = {
  name: "JobStore.claimJobs: lost workers",
  checks: [
    check(
      "the last lost worker a job can afford fails it, in that same step",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claimed = yield* createAndClaim()
        yield* store.checkpointJobs([{ jobId: jobId(1), token: claimed.token, step: "transcribe", value: "text" }])
        for (const lostWorkers of [1, 2]) {
          yield* advance(leaseDurationMs)
          expect((yield* claimOne()).job).toMatchObject({ lostWorkers, failures: 0 })
        }
        yield* advance(leaseDurationMs - 1)
        expect(yield* claim()).toMatchObject({ claims: [], abandoned: [] })
        yield* advance(1)
        const before = yield* read(newJob(1))
        expect(yield* claim()).toEqual({ claims: [], abandoned: [jobId(1)], nextInMs: undefined })
        const after = yield* read(newJob(1))
        expectMoved(before, { event: "abandoned" }, 3 * leaseDurationMs, after)
        expect(after).toMatchObject({ errorCode: "attempts_exhausted", lostWorkers: 3, attempts: 3, retained: "kept" })
        expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
      }),
    ),

    check(
      "an abandoned job does not use up the limit",
      Effect.gen(function* () {
        yield* createAndClaim(newJob(1))
        yield* advance(leaseDurationMs)
        yield* create(newJob(2), newJob(3))
        const result = yield* claim({ limit: 1, maxLostWorkers: 1 })
        expect(result).toMatchObject({ abandoned: [jobId(1)], nextInMs: 0 })
        expect(claimedNumbers(result)).toEqual([2])
      }),
    ),

    check(
      "a lost job is ordered among waiting jobs by the end of its lease",
      Effect.gen(function* () {
        yield* create(newJob(4), newJob(5))
        yield* claim()
        yield* create(newJob(1))
        yield* advance(leaseDurationMs)
        yield* create(newJob(2))
        yield* advance(1)
        yield* create(newJob(3))
        for (const numbers of [[1], [2], [4, 5, 3]])
          expect(claimedNumbers(yield* claim({ limit: numbers.length }))).toEqual(numbers)
      }),
    ),

    check(
      "many can be abandoned in one step",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2), newJob(3))
        yield* claim()
        yield* advance(leaseDurationMs)
        const { abandoned, claims } = yield* claim({ limit: 1, maxLostWorkers: 1 })
        expect([[...abandoned].sort(), claims]).toEqual([[jobId(1), jobId(2), jobId(3)], []])
      }),
    ),

    check(
      "released and deferred jobs have lost no worker",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        for (let n = 0; n < 6; n++) {
          const { token, job } = yield* claimOne({ maxLostWorkers: 1 })
          expect(job).toMatchObject({ lostWorkers: 0, attempts: n + 1 })
          const item = { jobId: jobId(1), token }
          expect(
            n % 2 === 0
              ? yield* store.releaseJobs([item])
              : yield* store.deferJobs([{ ...item, delayMs: 0, countsAsFailure: true }]),
          ).toEqual(["Written"])
          yield* advance(leaseDurationMs)
        }
      }),
    ),

    check(
      "a lost worker counts no failure, and a failure counts no lost worker",
      Effect.gen(function* () {
        const store = yield* JobStore
        const one = yield* createAndClaim()
        yield* store.deferJobs([{ jobId: jobId(1), token: one.token, delayMs: 0, countsAsFailure: true }])
        yield* claimOne()
        yield* advance(leaseDurationMs)
        expect((yield* claimOne()).job).toMatchObject({ failures: 1, lostWorkers: 1, attempts: 3 })
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, type NewJob } from "@kiln/core/ports"
import { advance, claim, claimedNumbers, claimOne, create, createAndClaim, first, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, leaseDurationMs, newJob, projectId } from "../fixtures.ts"

const urgent = (n: number, overrides: Partial<NewJob> = {}): NewJob => newJob(n, { priority: "urgent", ...overrides })

/** Within its lane a job of higher priority goes first; no lane gains a turn by it. */
export const priority: Section = {
  name: "JobStore.claimJobs: priority",
  checks: [
    check(
      "is kept with the job",
      Effect.gen(function* () {
        const jobs = [newJob(1, { priority: "low" }), newJob(2), newJob(3, { priority: "high" }), urgent(4)]
        const kept = ["low", "normal", "high", "urgent"]
        expect((yield* create(...jobs)).map((job) => job.priority)).toEqual(kept)
        expect((yield* Effect.forEach(jobs, read)).map((job) => job.priority)).toEqual(kept)
        expect((yield* claim()).claims.map(({ job }) => job.priority)).toEqual(kept.toReversed())
      }),
    ),

    check(
      "the highest first, then the oldest, then by id",
      Effect.gen(function* () {
        yield* create(newJob(9, { priority: "low" }), newJob(8), newJob(2, { priority: "high" }), urgent(7))
        yield* advance(1)
        yield* create(newJob(6), urgent(5), urgent(4), newJob(3, { priority: "high" }), newJob(1, { priority: "low" }))
        expect(claimedNumbers(yield* claim())).toEqual([7, 4, 5, 2, 3, 8, 6, 9, 1])
      }),
    ),

    check(
      "also when each job is created in a call of its own",
      Effect.gen(function* () {
        yield* create(newJob(1))
        yield* create(newJob(2, { priority: "low" }))
        yield* create(newJob(3, { priority: "high" }))
        expect(claimedNumbers(yield* claim())).toEqual([3, 1, 2])
      }),
    ),

    check(
      "over several claims too, of one job each, while other jobs arrive",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2, { priority: "low" }), urgent(3))
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([3])
        yield* advance(1)
        yield* create(newJob(4, { priority: "high" }))
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([4])
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([1])
        yield* create(urgent(5))
        expect(claimedNumbers(yield* claim({ limit: 2 }))).toEqual([5, 2])
      }),
    ),

    check(
      "survives a retry: deferred jobs return to the place of their priority and delay",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim(urgent(1))
        yield* create(newJob(2), urgent(3))
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 100, countsAsFailure: true }])
        expect((yield* read(newJob(1))).priority).toBe("urgent")
        yield* advance(99)
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([3])
        yield* advance(1)
        yield* create(urgent(4))
        expect(claimedNumbers(yield* claim())).toEqual([1, 4, 2])
      }),
    ),

    check(
      "stays over a release: back at the head of its own priority, not of the lane",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), urgent(2))
        const { claims } = yield* claim()
        yield* advance(10)
        yield* create(newJob(3), urgent(4))
        yield* store.releaseJobs(claims.map(({ job, token }) => ({ jobId: job.id, token })))
        expect(claimedNumbers(yield* claim())).toEqual([2, 4, 1, 3])
      }),
    ),

    check(
      "stays when a worker is lost",
      Effect.gen(function* () {
        yield* createAndClaim(newJob(1))
        yield* createAndClaim(urgent(2))
        yield* advance(leaseDurationMs)
        yield* create(newJob(3), urgent(4))
        expect(claimedNumbers(yield* claim())).toEqual([2, 4, 1, 3])
      }),
    ),

    check(
      "delayed jobs block no others, however urgent they are",
      Effect.gen(function* () {
        yield* create(urgent(1, { delayMs: 500 }), newJob(2, { priority: "low" }), newJob(3, { delayMs: 200 }))
        expect(claimedNumbers(yield* claim({ limit: 2 }))).toEqual([2])
        yield* advance(500)
        yield* create(urgent(4), newJob(5, { priority: "high" }))
        expect(claimedNumbers(yield* claim())).toEqual([1, 4, 5, 3])
      }),
    ),

    check(
      "never takes a turn from another project",
      Effect.gen(function* () {
        const other = { projectId: projectId(2), priority: "low" } as const
        yield* create(...Array.from({ length: 20 }, (_, n) => urgent(n)))
        yield* create(...Array.from({ length: 20 }, (_, n) => newJob(100 + n, other)))
        for (const limit of [2, 4, 6]) {
          const numbers = claimedNumbers(yield* claim({ limit }))
          expect(numbers.filter((n) => n >= 100)).toHaveLength(limit / 2)
        }
      }),
    ),

    check(
      "nor from another kind of the same project",
      Effect.gen(function* () {
        yield* create(urgent(1), urgent(2), urgent(3))
        yield* create(...[101, 102, 103].map((n) => newJob(n, { kind: "transcription", priority: "low" })))
        expect(claimedNumbers(yield* claim({ limit: 4 })).filter((n) => n > 100)).toHaveLength(2)
      }),
    ),

    check(
      "reports more jobs, or when there will be some, regardless of priority",
      Effect.gen(function* () {
        yield* create(urgent(1, { delayMs: 300 }), newJob(2, { priority: "low" }), newJob(3))
        const one = yield* claim({ limit: 1 })
        expect([claimedNumbers(one), one.nextInMs]).toEqual([[3], 0])
        expect((yield* claimOne()).job.id).toBe(jobId(2))
        expect((yield* claim()).nextInMs).toBe(300)
      }),
    ),

    check(
      "jobs that are to be abandoned stand in the same order",
      Effect.gen(function* () {
        yield* createAndClaim(newJob(1), { leaseDurationMs: 100 })
        yield* create(urgent(2))
        yield* advance(100)
        const result = yield* claim({ limit: 1, maxLostWorkers: 1 })
        expect([claimedNumbers(result), result.abandoned]).toEqual([[2], []])
        expect((yield* claim({ maxLostWorkers: 1 })).abandoned).toEqual([first([jobId(1)])])
      }),
    ),

    check(
      "numbers are kept, and are served in their order, with the names between them",
      Effect.gen(function* () {
        const inOrder = [5, 4, 3, "urgent", "high", "normal", "low", -2, -3, -4, -5] as const
        const jobs = inOrder.map((rank, n) => newJob(n, { priority: rank }))
        expect((yield* create(...jobs.toReversed())).map((job) => job.priority)).toEqual(inOrder.toReversed())
        expect((yield* Effect.forEach(jobs, read)).map((job) => job.priority)).toEqual(inOrder)
        expect((yield* claim()).claims.map(({ job }) => job.priority)).toEqual(inOrder)
      }),
    ),

    check(
      "jobs of one number are served by time, then by id",
      Effect.gen(function* () {
        yield* create(newJob(9, { priority: -5 }), newJob(8, { priority: 5 }), newJob(7, { priority: -4 }))
        yield* advance(1)
        yield* create(newJob(4, { priority: 5 }), newJob(3, { priority: 5 }), newJob(2, { priority: -5 }), newJob(1))
        expect(claimedNumbers(yield* claim())).toEqual([8, 3, 4, 1, 7, 9, 2])
      }),
    ),

    check(
      "jobs of every number are found, one claim after the other, and their delays reported",
      Effect.gen(function* () {
        yield* create(
          newJob(1, { priority: 4, delayMs: 200 }),
          newJob(2, { priority: -5 }),
          newJob(3, { priority: -3 }),
        )
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([3])
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([2])
        expect((yield* claim()).nextInMs).toBe(200)
        yield* advance(200)
        yield* create(newJob(4, { priority: 5 }))
        expect(claimedNumbers(yield* claim())).toEqual([4, 1])
      }),
    ),
  ],
}

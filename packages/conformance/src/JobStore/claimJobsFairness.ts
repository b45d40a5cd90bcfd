import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, claimedNumbers, claimOne, complete, create, first } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob, projectId, queueLimitMs } from "../fixtures.ts"

const jobsOf = (project: number, from: number, count: number, kind = "speech_synthesis") =>
  Array.from({ length: count }, (_, n) => newJob(from + n, { projectId: projectId(project), kind }))

const isSecond = (n: number): boolean => n >= 5_000

/** Lanes (project, kind, mode) in turn, and within one in order of arrival. */
export const fairness: Section = {
  name: "JobStore.claimJobs: fairness",
  checks: [
    check(
      "within a lane, jobs are claimed in order of creation, then of id",
      Effect.gen(function* () {
        yield* create(newJob(7), newJob(3))
        yield* advance(1)
        yield* create(newJob(1), newJob(2))
        expect(claimedNumbers(yield* claim())).toEqual([3, 7, 1, 2])
      }),
    ),

    check(
      "a released job is back at the head of its lane, a deferred one where its delay puts it",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        yield* advance(10)
        yield* create(newJob(2))
        yield* advance(10)
        yield* create(newJob(3))
        const { claims } = yield* claim({ limit: 2 })
        const [one, two] = claims.map(({ job, token }) => ({ jobId: job.id, token }))
        if (one === undefined || two === undefined) throw new Error("expected two claims")
        yield* store.deferJobs([{ ...one, delayMs: 5, countsAsFailure: true }])
        yield* store.releaseJobs([two])
        yield* advance(5)
        expect(claimedNumbers(yield* claim())).toEqual([2, 3, 1])
      }),
    ),

    check(
      "one project's flood of 1,000 jobs does not delay another's single job",
      Effect.gen(function* () {
        yield* create(...jobsOf(1, 1, 1_000))
        yield* claim({ limit: 10 })
        yield* create(...jobsOf(2, 5_000, 1))
        expect(claimedNumbers(yield* claim({ limit: 2 })).filter(isSecond)).toEqual([5_000])
      }),
    ),

    check(
      "projects with work take turns, one job each",
      Effect.gen(function* () {
        yield* create(...jobsOf(1, 1, 30), ...jobsOf(2, 5_000, 30), ...jobsOf(3, 9_000, 30))
        for (let round = 0; round < 10; round++) {
          const numbers = claimedNumbers(yield* claim({ limit: 3 }))
          expect(new Set(numbers.map((n) => Math.floor(n / 4_500)))).toEqual(new Set([0, 1, 2]))
        }
      }),
    ),

    check(
      "also more projects than a store reads at a time",
      Effect.gen(function* () {
        const projects = Array.from({ length: 40 }, (_, n) => n + 1)
        yield* create(...projects.flatMap((project) => jobsOf(project, project * 100, 3)))
        const claimed: Array<number> = []
        for (const limit of [25, 45, 25, 25]) claimed.push(...claimedNumbers(yield* claim({ limit })))
        expect(claimed).toEqual([0, 1, 2].flatMap((n) => projects.map((project) => project * 100 + n)))
      }),
    ),

    check(
      "turns continue across calls of any size",
      Effect.gen(function* () {
        yield* create(...jobsOf(1, 1, 100), ...jobsOf(2, 5_000, 100))
        let second = 0
        let all = 0
        for (const limit of [1, 3, 2, 5, 1, 1, 7, 4]) {
          const numbers = claimedNumbers(yield* claim({ limit }))
          second += numbers.filter(isSecond).length
          all += numbers.length
          expect(Math.abs(all - 2 * second), "never more than one turn apart").toBeLessThanOrEqual(1)
        }
      }),
    ),

    check(
      "a project whose only job was claimed comes after one that has had no turn",
      Effect.gen(function* () {
        // The first lane is the oldest, which decides between lanes of the same turn.
        yield* create(...jobsOf(1, 1, 1), ...jobsOf(2, 5_000, 1))
        expect(claimedNumbers(yield* claim({ limit: 2 }))).toEqual([1, 5_000])
        yield* create(...jobsOf(1, 2, 1))
        expect(claimedNumbers(yield* claim({ limit: 2 }))).toEqual([2])
        yield* create(...jobsOf(1, 3, 1), ...jobsOf(2, 5_001, 1))
        expect(claimedNumbers(yield* claim({ limit: 1 }))).toEqual([5_001])
      }),
    ),

    check(
      "projects that wait for the room of their kind take turns, however many jobs of another kind run meanwhile",
      Effect.gen(function* () {
        const waiting = [1, 2, 3, 4]
        yield* create(...waiting.flatMap((project) => jobsOf(project, project * 1_000, 3, "transcription")))
        yield* create(...jobsOf(9, 9_000, 100))
        const order: Array<number> = []
        for (let round = 0; round < 12; round++) {
          const { claims } = yield* claim({ limit: 6, limits: { perKind: { transcription: 1 }, perProject: 0 } })
          for (const one of claims) {
            const project = waiting.find((n) => one.job.projectId === projectId(n))
            if (project !== undefined) order.push(project)
            yield* complete(one)
          }
        }
        expect(order).toEqual([waiting, waiting, waiting].flat())
      }),
    ),

    check(
      "each kind and mode of a project is a separate lane",
      Effect.gen(function* () {
        yield* create(...jobsOf(1, 1, 50), ...jobsOf(1, 5_000, 50, "transcription"))
        expect(claimedNumbers(yield* claim({ limit: 10 })).filter(isSecond)).toHaveLength(5)
      }),
    ),

    check(
      "a project that arrives late gets no turns for the past",
      Effect.gen(function* () {
        yield* create(...jobsOf(1, 1, 200))
        yield* claim({ limit: 100 })
        yield* create(...jobsOf(2, 5_000, 100))
        expect(claimedNumbers(yield* claim({ limit: 20 })).filter(isSecond).length).toBeLessThanOrEqual(11)
      }),
    ),

    check(
      "neither does a project that was idle and returns",
      Effect.gen(function* () {
        yield* create(...jobsOf(2, 5_000, 1))
        yield* complete(first((yield* claim()).claims))
        yield* create(...jobsOf(1, 1, 200))
        yield* claim({ limit: 100 })
        yield* create(...jobsOf(2, 5_001, 100))
        expect(claimedNumbers(yield* claim({ limit: 20 })).filter(isSecond).length).toBeLessThanOrEqual(11)
      }),
    ),

    check(
      "nor one that could not run meanwhile: deferred, or of a kind that no worker ran",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(...jobsOf(2, 5_000, 1))
        const { token } = yield* claimOne()
        yield* store.deferJobs([{ jobId: jobId(5_000), token, delayMs: 1_000, countsAsFailure: false }])
        yield* create(...jobsOf(3, 6_000, 100, "transcription"))
        yield* create(...jobsOf(1, 1, 300))
        yield* claim({ limit: 100, runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }] })
        yield* create(...jobsOf(2, 5_001, 100))
        yield* advance(1_000)
        const numbers = claimedNumbers(yield* claim({ limit: 30 }))
        expect(
          numbers.filter((n) => n < 5_000).length,
          "the one that ran all along keeps its third",
        ).toBeGreaterThanOrEqual(9)
        expect(numbers.filter((n) => n >= 6_000).length).toBeGreaterThanOrEqual(9)
      }),
    ),

    check(
      "jobs that may not run do not block others: deferred and overdue jobs at the head",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1, { limits: { queueLimitMs: 100, runLimitMs: 100 } }), newJob(2))
        yield* advance(100)
        const { token } = yield* claimOne()
        yield* store.deferJobs([{ jobId: jobId(2), token, delayMs: queueLimitMs / 2, countsAsFailure: false }])
        yield* create(newJob(3))
        expect(claimedNumbers(yield* claim())).toEqual([3])
      }),
    ),
  ],
}

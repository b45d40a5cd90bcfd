import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ClaimResult, JobStore } from "@kiln/core/ports"
import {
  advance,
  claim,
  claimedNumbers,
  claimOne,
  complete,
  create,
  first,
  openAudioGate,
  runnable,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, leaseDurationMs, newJob, newLiveJob, projectId } from "../fixtures.ts"

const jobs = (from: number, count: number, overrides: Parameters<typeof newJob>[1] = {}) =>
  Array.from({ length: count }, (_, n) => newJob(from + n, overrides))

const perKind = (limit: number) => ({ limits: { perKind: { speech_synthesis: limit }, perProject: 0 } })
const perProject = (limit: number) => ({ limits: { perKind: {}, perProject: limit } })

const sortedNumbers = (result: ClaimResult) => claimedNumbers(result).toSorted((a, b) => a - b)

/** The limits of concurrently claimed jobs, across all workers. */
export const limits: Section = {
  name: "JobStore.claimJobs: limits",
  checks: [
    check(
      "no more jobs of a kind are claimed than its limit allows, in one claim or in several",
      Effect.gen(function* () {
        yield* create(...jobs(1, 6))
        expect(claimedNumbers(yield* claim({ ...perKind(3), limit: 1 }))).toEqual([1])
        const { claims } = yield* claim(perKind(3))
        expect(claims.map(({ job }) => job.id)).toEqual([jobId(2), jobId(3)])
        expect(claimedNumbers(yield* claim(perKind(3)))).toEqual([])
        yield* complete(first(claims))
        expect(claimedNumbers(yield* claim(perKind(3)))).toEqual([4])
      }),
    ),

    check(
      "`nextInMs` is that of the first lane of this kind that is not at its limit",
      Effect.gen(function* () {
        const delayed = (n: number, delayMs: number, kind = "speech_synthesis") =>
          newJob(n, { projectId: projectId(n), delayMs, kind })
        yield* create(...jobs(1, 2), delayed(3, 9_000), delayed(4, 5_000), delayed(5, 1_000, "image_generation"))
        expect(claimedNumbers(yield* claim(perProject(1)))).toEqual([1])
        expect(yield* claim(perProject(1))).toMatchObject({ claims: [], nextInMs: 5_000 })
      }),
    ),

    check(
      "nor by concurrent claims",
      Effect.gen(function* () {
        yield* create(...jobs(1, 20))
        const results = yield* Effect.all(
          Array.from({ length: 6 }, () => claim({ ...perKind(4), limit: 3 })),
          { concurrency: "unbounded" },
        )
        expect(results.flatMap(claimedNumbers).toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4])
      }),
    ),

    check(
      "a kind without an entry has no limit",
      Effect.gen(function* () {
        yield* create(...jobs(1, 3), ...jobs(11, 3, { kind: "transcription" }))
        expect(sortedNumbers(yield* claim(perKind(1)))).toEqual([1, 11, 12, 13])
      }),
    ),

    check(
      "each project has its own limit, for all its kinds together",
      Effect.gen(function* () {
        yield* create(
          ...jobs(1, 3),
          ...jobs(11, 3, { kind: "transcription" }),
          ...jobs(21, 3, { projectId: projectId(2) }),
        )
        expect(sortedNumbers(yield* claim(perProject(2)))).toEqual([1, 11, 21, 22])
        expect(claimedNumbers(yield* claim(perProject(2)))).toEqual([])
        expect(sortedNumbers(yield* claim(perProject(3)))).toHaveLength(2)
      }),
    ),

    check(
      "a project can have a limit of its own, which counts the jobs that it holds already",
      Effect.gen(function* () {
        yield* create(
          ...jobs(1, 4),
          ...jobs(11, 4, { projectId: projectId(2) }),
          ...jobs(21, 4, { projectId: projectId(3) }),
        )
        const own = (perProject: number) => ({
          limits: { perKind: {}, perProject, projects: { [projectId(1)]: 3, [projectId(3)]: 0 } },
        })
        expect(sortedNumbers(yield* claim({ ...own(1), limit: 5 }))).toHaveLength(5)
        const rest = yield* claim(own(1))
        expect(sortedNumbers(rest)).toHaveLength(3)
        expect(sortedNumbers(yield* claim(own(1)))).toEqual([])
        expect(sortedNumbers(yield* claim(own(2)))).toEqual([12])
        yield* complete(first(rest.claims.filter(({ job }) => job.projectId === projectId(1))))
        expect(sortedNumbers(yield* claim(own(1)))).toEqual([4])
        // Without a limit for all others.
        expect(sortedNumbers(yield* claim(own(0)))).toEqual([13, 14])
      }),
    ),

    check(
      "all projects share the limit of a kind",
      Effect.gen(function* () {
        yield* create(...jobs(1, 3), ...jobs(21, 3, { projectId: projectId(2) }))
        expect(sortedNumbers(yield* claim({ limits: { perKind: { speech_synthesis: 3 }, perProject: 2 } }))).toEqual([
          1, 2, 21,
        ])
      }),
    ),

    check(
      "the versions of a kind share its limit",
      Effect.gen(function* () {
        yield* create(...jobs(1, 3), ...jobs(11, 3, { kindVersion: 2 }))
        const both = [1, 2].map((kindVersion) => ({ kind: "speech_synthesis", kindVersion, mode: "sandbox" as const }))
        expect(sortedNumbers(yield* claim({ ...perKind(2), runnable: both }))).toEqual([1, 11])
        expect(claimedNumbers(yield* claim({ ...perKind(2), runnable: both.slice(1) }))).toEqual([])
      }),
    ),

    check(
      "sandbox and live jobs are limited separately",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* create(...jobs(1, 2), newLiveJob(11), newLiveJob(12))
        expect(sortedNumbers(yield* claim(perKind(1)))).toEqual([1, 11])
        expect(claimedNumbers(yield* claim(perProject(1)))).toEqual([])
        expect(sortedNumbers(yield* claim(perProject(2)))).toEqual([2, 12])
      }),
    ),

    check(
      "released jobs, and jobs that wait for a retry, do not count",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(...jobs(1, 4))
        const { claims } = yield* claim({ limit: 2 })
        const [one, two] = claims.map(({ job, token }) => ({ jobId: job.id, token }))
        if (one === undefined || two === undefined) throw new Error("expected two claims")
        yield* store.deferJobs([{ ...one, delayMs: 1_000, countsAsFailure: false }])
        expect(claimedNumbers(yield* claim(perKind(2)))).toEqual([3])
        yield* store.releaseJobs([two])
        expect(claimedNumbers(yield* claim(perKind(2)))).toEqual([2])
      }),
    ),

    check(
      "a lease that ended makes room, to the millisecond; its job waits like the others",
      Effect.gen(function* () {
        yield* create(...jobs(1, 2))
        const request = { ...perKind(1), maxLostWorkers: 1 }
        yield* claimOne(request)
        yield* advance(leaseDurationMs - 1)
        expect(yield* claim(request)).toMatchObject({ claims: [], abandoned: [] })
        yield* advance(1)
        const next = yield* claim(request)
        expect([claimedNumbers(next), next.abandoned]).toEqual([[2], []])
        yield* complete(first(next.claims))
        expect(yield* claim(request)).toMatchObject({ claims: [], abandoned: [jobId(1)] })
      }),
    ),

    check(
      "a lane at its limit takes no turn: it is next when there is room",
      Effect.gen(function* () {
        yield* create(...jobs(11, 20, { kind: "transcription" }), ...jobs(1, 3))
        const { claims } = yield* claim({ ...perKind(1), limit: 6 })
        expect(claims.map(({ job }) => Number(job.id.slice("job_".length)))).toEqual([11, 1, 12, 13, 14, 15])
        yield* complete(first(claims.filter(({ job }) => job.id === jobId(1))))
        expect(claimedNumbers(yield* claim({ ...perKind(1), limit: 2 }))).toEqual([2, 16])
      }),
    ),

    check(
      "`nextInMs` is no earlier than there can be room, and 0 only where there is room and work",
      Effect.gen(function* () {
        yield* create(...jobs(1, 4), ...jobs(11, 1, { kind: "transcription" }))
        yield* claim({ ...perKind(2), limit: 1, leaseDurationMs: 700 })
        expect(yield* claim({ ...perKind(2), limit: 0 })).toMatchObject({ claims: [], nextInMs: 0 })
        yield* advance(100)
        const full = yield* claim(perKind(2))
        expect([sortedNumbers(full), full.nextInMs]).toEqual([[2, 11], 600])
        expect((yield* claim({ ...perKind(2), limit: 0 })).nextInMs).toBe(600)
        yield* advance(599)
        expect(yield* claim(perKind(2))).toMatchObject({ claims: [], nextInMs: 1 })
        yield* advance(1)
        expect(claimedNumbers(yield* claim(perKind(2)))).toEqual([3])
      }),
    ),

    check(
      "the same holds for projects, which do not wait for each other's limits",
      Effect.gen(function* () {
        const store = yield* JobStore
        const other = newJob(21, { projectId: projectId(2) })
        yield* create(...jobs(1, 3), other)
        yield* claim({ limit: 1, leaseDurationMs: 700 })
        const { claims } = yield* claim(perProject(1))
        expect(claims.map(({ job }) => job.id)).toEqual([other.id])
        expect((yield* claim(perProject(1))).nextInMs).toBe(700)
        yield* store.deferJobs([{ jobId: other.id, token: first(claims).token, delayMs: 300, countsAsFailure: false }])
        expect((yield* claim(perProject(1))).nextInMs).toBe(300)
        yield* advance(300)
        expect((yield* claim({ ...perProject(1), limit: 0 })).nextInMs).toBe(0)
        expect(claimedNumbers(yield* claim(perProject(1)))).toEqual([21])
      }),
    ),

    check(
      "limits apply to claims: no job is stopped, and a lease extended after its end counts again",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(...jobs(1, 4))
        const slow = yield* claimOne(perKind(1))
        yield* advance(leaseDurationMs)
        const quick = yield* claimOne(perKind(1))
        expect(quick.job.id).toBe(jobId(2))
        const ref = { jobId: slow.job.id, token: slow.token, leaseDurationMs }
        expect(yield* store.extendLeases([ref])).toMatchObject([{ _tag: "Extended" }])
        yield* complete(quick)
        expect(claimedNumbers(yield* claim(perKind(1)))).toEqual([])
        expect(claimedNumbers(yield* claim({ ...perKind(3), runnable }))).toEqual([3, 4])
        expect(claimedNumbers(yield* claim(perKind(1)))).toEqual([])
        yield* complete(slow)
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { JobMode, ProjectId } from "@kiln/core/domain"
import { type ClaimResult, JobStore } from "@kiln/core/ports"
import { advance, claim, claimedNumbers, create, first, openAudioGate } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { newJob, newLiveJob, projectId } from "../fixtures.ts"

const jobs = (from: number, count: number, overrides: Parameters<typeof newJob>[1] = {}) =>
  Array.from({ length: count }, (_, n) => newJob(from + n, overrides))

const liveJobs = (from: number, count: number) => Array.from({ length: count }, (_, n) => newLiveJob(from + n))

const slots = (
  free: Readonly<Record<JobMode, number>>,
  perProject = 0,
  held: ReadonlyArray<readonly [mode: JobMode, projectId: ProjectId, count: number]> = [],
) => ({
  worker: { free, perProject, held: held.map(([mode, id, count]) => ({ mode, projectId: id, count })) },
})

const plenty = { live: 99, sandbox: 99 }

const sortedNumbers = (result: ClaimResult) => claimedNumbers(result).toSorted((a, b) => a - b)

/** Claims respect the worker's own slots. */
export const workerSlots: Section = {
  name: "JobStore.claimJobs: a worker's slots",
  checks: [
    check(
      "a kind gets no more jobs than its quota, all its versions together, and other kinds continue",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* create(
          ...jobs(1, 4),
          ...jobs(5, 4, { projectId: projectId(2) }),
          ...jobs(11, 2, { kind: "transcription" }),
          ...liveJobs(21, 3),
        )
        const { worker } = slots(plenty)
        const quota = (mode: JobMode, count: number) => ({ kind: "speech_synthesis", mode, count })
        const some = yield* claim({ worker: { ...worker, quotas: [quota("sandbox", 3), quota("live", 1)] } })
        expect(sortedNumbers(some)).toEqual([1, 2, 5, 11, 12, 21])
        // Only the worker knows when it may take more of them.
        const { claims, nextInMs } = yield* claim({
          worker: { ...worker, quotas: [quota("sandbox", 0), quota("live", 0)] },
        })
        expect(claims).toEqual([])
        expect(nextInMs ?? 1).toBeGreaterThan(0)
        expect(sortedNumbers(yield* claim({ worker: { ...worker, quotas: [quota("sandbox", 2)] } }))).toEqual([
          3, 6, 22, 23,
        ])
      }),
    ),

    check(
      "each mode fills its own free slots and no others",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* create(...jobs(1, 5), ...liveJobs(11, 5))
        expect(sortedNumbers(yield* claim(slots({ live: 2, sandbox: 0 })))).toEqual([11, 12])
        expect(sortedNumbers(yield* claim(slots({ live: 1, sandbox: 3 })))).toEqual([1, 2, 3, 13])
        expect(sortedNumbers(yield* claim(slots({ live: 0, sandbox: 0 })))).toEqual([])
        expect(sortedNumbers(yield* claim(slots({ live: 9, sandbox: 1 })))).toEqual([4, 14, 15])
      }),
    ),

    check(
      "a project gets its share, and other projects' jobs continue",
      Effect.gen(function* () {
        yield* create(...jobs(1, 9), ...jobs(21, 2, { projectId: projectId(2) }))
        expect(sortedNumbers(yield* claim(slots(plenty, 3)))).toEqual([1, 2, 3, 21, 22])
      }),
    ),

    check(
      "all kinds of a project share it, and each mode has one",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* create(...jobs(1, 3), ...jobs(11, 3, { kind: "transcription" }), ...liveJobs(21, 3))
        expect(sortedNumbers(yield* claim(slots(plenty, 2)))).toEqual([1, 11, 21, 22])
      }),
    ),

    check(
      "the jobs that the worker reports as held count, jobs that others hold do not",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* create(...jobs(1, 9), ...liveJobs(11, 9))
        yield* claim({ limit: 4 })
        const held = [
          ["sandbox", projectId(1), 1],
          ["sandbox", projectId(2), 7],
          ["live", projectId(1), 2],
        ] as const
        expect(sortedNumbers(yield* claim(slots(plenty, 3, held)))).toEqual([3, 4, 13])
        expect(sortedNumbers(yield* claim(slots(plenty, 3, [["sandbox", projectId(1), 3]])))).toEqual([14, 15, 16])
      }),
    ),

    check(
      "its lane keeps its place: it is next when there is room",
      Effect.gen(function* () {
        yield* create(...jobs(11, 9, { projectId: projectId(2) }), ...jobs(1, 3))
        expect(claimedNumbers(yield* claim({ limit: 2 }))).toEqual([11, 1])
        const holdsShare = slots(plenty, 5, [["sandbox", projectId(1), 5]])
        expect(claimedNumbers(yield* claim({ ...holdsShare, limit: 4 }))).toEqual([12, 13, 14, 15])
        expect(claimedNumbers(yield* claim({ ...slots(plenty, 5), limit: 2 }))).toEqual([2, 16])
      }),
    ),

    check(
      "a job that lost its last worker takes no slot",
      Effect.gen(function* () {
        yield* create(newJob(1))
        yield* claim({ leaseDurationMs: 10 })
        yield* advance(10)
        yield* create(newJob(2))
        const next = yield* claim({ ...slots({ live: 0, sandbox: 1 }), maxLostWorkers: 1 })
        expect([claimedNumbers(next), next.abandoned.length]).toEqual([[2], 1])
      }),
    ),

    check(
      "`nextInMs` ignores lanes for which only the worker can make room",
      Effect.gen(function* () {
        const store = yield* JobStore
        const other = newJob(21, { projectId: projectId(2) })
        yield* openAudioGate
        yield* create(...jobs(1, 3), ...liveJobs(11, 3), other)
        const share = slots({ live: 0, sandbox: 9 }, 1)
        const { claims, nextInMs } = yield* claim({ ...share, leaseDurationMs: 700 })
        expect([claims.length, nextInMs]).toEqual([2, undefined])
        const ref = first(claims.filter(({ job }) => job.id === other.id))
        yield* store.deferJobs([{ jobId: other.id, token: ref.token, delayMs: 300, countsAsFailure: false }])
        const held = slots({ live: 0, sandbox: 8 }, 1, [["sandbox", projectId(1), 1]])
        expect((yield* claim(held)).nextInMs).toBe(300)
        yield* advance(300)
        expect((yield* claim({ ...held, limit: 0 })).nextInMs).toBe(0)
        expect(claimedNumbers(yield* claim(held))).toEqual([21])
      }),
    ),

    check(
      "limits of the installation apply as well",
      Effect.gen(function* () {
        yield* create(...jobs(1, 5), ...jobs(11, 5, { kind: "transcription" }))
        const limits = { perKind: { speech_synthesis: 1 }, perProject: 4 }
        expect(sortedNumbers(yield* claim({ ...slots(plenty, 3), limits }))).toEqual([1, 11, 12])
        expect(sortedNumbers(yield* claim({ ...slots(plenty, 3), limits }))).toEqual([13])
      }),
    ),
  ],
}

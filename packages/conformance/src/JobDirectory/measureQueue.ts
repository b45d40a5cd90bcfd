import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ProjectId } from "@kiln/core/domain"
import { JobDirectory, JobStore } from "@kiln/core/ports"
import { advance, create, createAndClaim, createDone, createFailed, openAudioGate } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, leaseDurationMs, newJob, newLiveJob, projectId } from "../fixtures.ts"

const measuring = (limit = 1_000) => Effect.flatMap(JobDirectory, (directory) => directory.measureQueue({ limit }))

const sandbox = { kind: "speech_synthesis", mode: "sandbox" } as const
const nothing = { ready: 0, delayed: 0, retrying: 0, running: 0, oldestReadyMs: 0 }

/** Measuring the queue by kind and mode. */
export const measureQueue: Section = {
  name: "JobDirectory.measureQueue",
  checks: [
    check(
      "an empty store has no queue, and finished jobs are not in it",
      Effect.gen(function* () {
        expect(yield* measuring()).toEqual([])
        yield* createDone(newJob(1))
        yield* createFailed(newJob(2))
        expect(yield* measuring()).toEqual([])
      }),
    ),

    check(
      "by kind and mode, of all projects",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* createAndClaim(newJob(1))
        yield* create(newJob(2), newJob(3, { projectId: projectId(2), priority: "high" }))
        yield* create(newJob(4, { delayMs: 60_000 }), newJob(5, { kind: "transcription" }), newLiveJob(6))
        expect((yield* measuring()).map(({ oldestReadyMs: _, ...depth }) => depth)).toEqual([
          { kind: "speech_synthesis", mode: "live", ready: 1, delayed: 0, retrying: 0, running: 0 },
          { kind: "speech_synthesis", mode: "sandbox", ready: 2, delayed: 1, retrying: 0, running: 1 },
          { kind: "transcription", mode: "sandbox", ready: 1, delayed: 0, retrying: 0, running: 0 },
        ])
      }),
    ),

    check(
      "a delayed job is ready from exactly its time, and its age counts from there",
      Effect.gen(function* () {
        yield* create(newJob(1, { delayMs: 50 }))
        yield* advance(49)
        expect(yield* measuring()).toEqual([{ ...sandbox, ...nothing, delayed: 1 }])
        yield* advance(1)
        expect(yield* measuring()).toMatchObject([{ ready: 1, delayed: 0 }])
        yield* advance(70)
        expect(yield* measuring()).toMatchObject([{ ready: 1, oldestReadyMs: 70 }])
      }),
    ),

    check(
      "the oldest job of any project and priority gives the age",
      Effect.gen(function* () {
        yield* create(newJob(1, { priority: "low", projectId: projectId(2) }))
        yield* advance(30)
        yield* create(newJob(2))
        yield* advance(10)
        yield* create(newJob(3, { priority: "urgent" }))
        expect(yield* measuring()).toMatchObject([{ ready: 3, oldestReadyMs: 40 }])
      }),
    ),

    check(
      "a job is running while its lease lasts, and ready when it has ended",
      Effect.gen(function* () {
        yield* createAndClaim(newJob(1))
        expect(yield* measuring()).toEqual([{ ...sandbox, ...nothing, running: 1 }])
        yield* advance(leaseDurationMs + 25)
        expect(yield* measuring()).toEqual([{ ...sandbox, ...nothing, ready: 1, oldestReadyMs: 25 }])
      }),
    ),

    check(
      "a job between two attempts is retrying, and ready when its delay is over",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim(newJob(1))
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 60_000, countsAsFailure: true }])
        expect(yield* measuring()).toEqual([{ ...sandbox, ...nothing, retrying: 1 }])
        yield* advance(60_010)
        expect(yield* measuring()).toEqual([{ ...sandbox, ...nothing, ready: 1, oldestReadyMs: 10 }])
      }),
    ),

    check(
      "of one project alone",
      Effect.gen(function* () {
        const of = (project: ProjectId) =>
          Effect.flatMap(JobDirectory, (directory) => directory.measureQueue({ limit: 1_000, projectId: project }))
        yield* create(newJob(1, { projectId: projectId(2) }))
        yield* advance(30)
        yield* create(newJob(2, { projectId: projectId(3) }), newJob(3, { projectId: projectId(3), delayMs: 1_000 }))
        expect(yield* of(projectId(2))).toEqual([{ ...sandbox, ...nothing, ready: 1, oldestReadyMs: 30 }])
        expect(yield* of(projectId(3))).toEqual([{ ...sandbox, ...nothing, ready: 1, delayed: 1 }])
        expect(yield* of(projectId(4))).toEqual([])
      }),
    ),

    check(
      "counts at most as many jobs as asked for, and still knows the oldest",
      Effect.gen(function* () {
        yield* create(newJob(1, { projectId: projectId(3) }))
        yield* advance(20)
        yield* create(...Array.from({ length: 9 }, (_, n) => newJob(n + 2, { projectId: projectId(n % 2) })))
        const [depth] = yield* measuring(4)
        expect(depth).toEqual({ ...sandbox, ...nothing, ready: 4, oldestReadyMs: 20 })
      }),
    ),
  ],
}

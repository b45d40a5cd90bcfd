import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type JobCount, JobDirectory, JobStore } from "@kiln/core/ports"
import { advance, create, createAndClaim, createDone, createFailed, openAudioGate, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, keyId, newJob, newLiveJob, projectId } from "../fixtures.ts"

const sorted = (counts: ReadonlyArray<JobCount>): ReadonlyArray<string> =>
  counts.map(({ count, kind, mode, status }) => `${kind} ${mode} ${status}: ${count}`).toSorted()

const counting = (finishedWithinMs: number, of?: number) =>
  Effect.flatMap(JobDirectory, (directory) =>
    Effect.map(
      directory.countJobs({ finishedWithinMs, ...(of === undefined ? {} : { projectId: projectId(of) }) }),
      sorted,
    ),
  )

/** Counting jobs by kind, mode and status. */
export const countJobs: Section = {
  name: "JobDirectory.countJobs",
  checks: [
    check(
      "an empty store has no counts",
      Effect.gen(function* () {
        expect(yield* counting(1_000)).toEqual([])
        expect(yield* counting(1_000, 1)).toEqual([])
      }),
    ),

    check(
      "by kind, mode and status, in all projects or in one",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* createDone(newJob(1), 1)
        yield* createDone(newLiveJob(2), 2)
        yield* createFailed(newJob(3))
        yield* createAndClaim(newJob(4))
        yield* create(newJob(5), newJob(6), newJob(7, { kind: "transcription" }), newLiveJob(8))
        yield* create(newJob(9, { projectId: projectId(2) }), newJob(10, { projectId: projectId(2), delayMs: 50 }))
        const second = ["speech_synthesis sandbox delayed: 1", "speech_synthesis sandbox queued: 1"]
        expect(yield* counting(1_000, 2)).toEqual(second)
        expect(yield* counting(1_000, 1)).toEqual([
          "speech_synthesis live done: 1",
          "speech_synthesis live queued: 1",
          "speech_synthesis sandbox done: 1",
          "speech_synthesis sandbox failed: 1",
          "speech_synthesis sandbox processing: 1",
          "speech_synthesis sandbox queued: 2",
          "transcription sandbox queued: 1",
        ])
        expect(yield* counting(1_000)).toEqual([
          "speech_synthesis live done: 1",
          "speech_synthesis live queued: 1",
          "speech_synthesis sandbox delayed: 1",
          "speech_synthesis sandbox done: 1",
          "speech_synthesis sandbox failed: 1",
          "speech_synthesis sandbox processing: 1",
          "speech_synthesis sandbox queued: 3",
          "transcription sandbox queued: 1",
        ])
        expect(yield* counting(1_000, 9)).toEqual([])
      }),
    ),

    check(
      "without unfinished jobs, only those that finished in time",
      Effect.gen(function* () {
        yield* createDone(newJob(1), 1)
        yield* createFailed(newJob(2))
        yield* createAndClaim(newJob(3))
        yield* create(newJob(4))
        const directory = yield* JobDirectory
        const finished = (finishedWithinMs: number) =>
          Effect.map(directory.countJobs({ finishedWithinMs, unfinished: false }), sorted)
        expect(yield* finished(1_000)).toEqual([
          "speech_synthesis sandbox done: 1",
          "speech_synthesis sandbox failed: 1",
        ])
        yield* advance(1_000)
        expect(yield* finished(1_000)).toEqual([])
      }),
    ),

    check(
      "a delayed job is delayed until exactly its time",
      Effect.gen(function* () {
        yield* create(newJob(1, { delayMs: 50 }))
        yield* advance(49)
        expect(yield* counting(1_000)).toEqual(["speech_synthesis sandbox delayed: 1"])
        yield* advance(1)
        expect(yield* counting(1_000)).toEqual(["speech_synthesis sandbox queued: 1"])
      }),
    ),

    check(
      "a job that waits for its next try is processing",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim(newJob(1))
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 60_000, countsAsFailure: true }])
        expect(yield* counting(1_000)).toEqual(["speech_synthesis sandbox processing: 1"])
      }),
    ),

    check(
      "finished jobs of the requested period, and unfinished ones of any age",
      Effect.gen(function* () {
        yield* create(newJob(1, { kind: "image_generation" }))
        yield* createDone(newJob(2))
        yield* advance(1_000)
        yield* createFailed(newJob(3))
        yield* advance(500)
        const waiting = "image_generation sandbox queued: 1"
        const failed = "speech_synthesis sandbox failed: 1"
        expect(yield* counting(499)).toEqual([waiting])
        expect(yield* counting(501)).toEqual([waiting, failed])
        expect(yield* counting(1_499)).toEqual([waiting, failed])
        expect(yield* counting(1_501)).toEqual([waiting, "speech_synthesis sandbox done: 1", failed])
        expect(yield* counting(Number.MAX_SAFE_INTEGER)).toHaveLength(3)
      }),
    ),

    check(
      "jobs whose records are gone are not counted",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createDone(newJob(1))
        yield* store.deleteJobs(0, 10)
        expect(yield* counting(1_000)).toEqual([])
      }),
    ),
  ],
}

/** Jobs by their ids alone. */
export const readJobs: Section = {
  name: "JobDirectory.readJobs",
  checks: [
    check(
      "reads complete jobs of any owner, in the requested order",
      Effect.gen(function* () {
        const directory = yield* JobDirectory
        const mine = newJob(1, { metadata: { model: "small" }, priority: "low" })
        const other = newJob(2, { projectId: projectId(2), keyId: keyId(2) })
        const done = yield* createDone(newJob(3), 3)
        yield* create(mine, other)
        const jobs = [yield* read(other), yield* read(mine), done]
        expect(yield* directory.readJobs([jobId(2), jobId(9), jobId(1), jobId(3), jobId(2)])).toEqual([
          jobs[0],
          undefined,
          jobs[1],
          jobs[2],
          jobs[0],
        ])
        expect(yield* directory.readJobs([])).toEqual([])
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type JobId, maxAhead } from "@kiln/core/domain"
import { JobDirectory, JobStore } from "@kiln/core/ports"
import { advance, create, createAndClaim, createDone, openAudioGate } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, leaseDurationMs, newJob, newLiveJob, projectId } from "../fixtures.ts"

const placeOf = Effect.fnUntraced(function* (id: JobId) {
  return yield* (yield* JobDirectory).findPlace(id)
})

/** Jobs that are served before each of these. */
const aheadOf = (...numbers: ReadonlyArray<number>) =>
  Effect.forEach(numbers, (n) => Effect.map(placeOf(jobId(n)), (place) => place?.ahead))

/** The place of an unfinished job. */
export const findPlace: Section = {
  name: "JobDirectory.findPlace",
  checks: [
    check(
      "only unfinished jobs have a place, which says the time of the store",
      Effect.gen(function* () {
        yield* createDone(newJob(1))
        yield* create(newJob(2))
        yield* advance(70)
        expect(yield* placeOf(jobId(1))).toBeUndefined()
        expect(yield* placeOf(jobId(9))).toBeUndefined()
        expect(yield* placeOf(jobId(2))).toEqual({ now: 70, ahead: 0, running: { kind: 0, project: 0, all: 0 } })
      }),
    ),

    check(
      "jobs of the lane that are ready are ahead by priority, then by age, then by id",
      Effect.gen(function* () {
        yield* create(newJob(4))
        yield* advance(10)
        yield* create(newJob(3), newJob(2), newJob(5, { priority: "high" }), newJob(6, { priority: "low" }))
        expect(yield* aheadOf(5, 4, 2, 3, 6)).toEqual([0, 1, 2, 3, 4])
      }),
    ),

    check(
      "jobs of other lanes, delayed ones and held ones are not ahead",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* createAndClaim(newJob(1))
        yield* create(newJob(2, { projectId: projectId(2) }), newJob(3, { kindVersion: 2 }), newLiveJob(4))
        yield* create(newJob(5, { kind: "transcription" }), newJob(6, { delayMs: 1_000, priority: "urgent" }))
        yield* advance(5)
        yield* create(newJob(7))
        expect(yield* aheadOf(7)).toEqual([0])
        yield* advance(995)
        expect(yield* aheadOf(7)).toEqual([1])
      }),
    ),

    check(
      "before a delayed job stand all that are ready now and as urgent",
      Effect.gen(function* () {
        yield* create(newJob(1, { delayMs: 1_000 }), newJob(2, { priority: "low" }))
        yield* advance(10)
        yield* create(newJob(3), newJob(4, { delayMs: 500 }))
        expect(yield* aheadOf(1)).toEqual([1])
      }),
    ),

    check(
      "running jobs of its mode are counted by kind, by project and together, while their leases last",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* createAndClaim(newJob(1))
        yield* createAndClaim(newJob(2, { projectId: projectId(2) }))
        yield* createAndClaim(newLiveJob(4))
        yield* create(newJob(5), newLiveJob(6))
        expect((yield* placeOf(jobId(5)))?.running).toEqual({ kind: 2, project: 1, all: 2 })
        expect((yield* placeOf(jobId(6)))?.running).toEqual({ kind: 1, project: 1, all: 1 })
        yield* advance(leaseDurationMs)
        expect((yield* placeOf(jobId(5)))?.running).toEqual({ kind: 0, project: 0, all: 0 })
      }),
    ),

    check(
      "the kinds of all jobs that ever were are listed, also when their records are gone",
      Effect.gen(function* () {
        const store = yield* JobStore
        const directory = yield* JobDirectory
        expect(yield* directory.listKinds).toEqual([])
        yield* createDone(newJob(1))
        yield* create(newJob(2, { kind: "report" }), newJob(3, { kind: "Report" }), newJob(4, { kind: "report" }))
        yield* advance(10)
        expect(yield* store.deleteJobs(5, 10)).toMatchObject({ count: 1 })
        expect(yield* directory.listKinds).toEqual(["Report", "report", "speech_synthesis"])
      }),
    ),

    check(
      `at most ${maxAhead} are counted`,
      Effect.gen(function* () {
        const store = yield* JobStore
        const jobs = Array.from({ length: maxAhead + 5 }, (_, n) =>
          newJob(n + 1, { priority: n < 9 ? "high" : "normal" }),
        )
        yield* store.createJobs(jobs)
        expect(yield* aheadOf(maxAhead + 5, 10)).toEqual([maxAhead, 9])
      }),
    ),
  ],
}

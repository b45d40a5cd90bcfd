import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { labelsWith, type Submitted, withSubmitted } from "@kiln/core/domain"
import { JobDirectory, type JobQuery, JobStore, type NewJob } from "@kiln/core/ports"
import { allJobs } from "../allJobs.ts"
import { advance, create, createAndClaim, createDone, createFailed, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { newJob, ownerOf, projectId } from "../fixtures.ts"

const labeledJob = (n: number, submitted: Submitted, overrides: Partial<NewJob> = {}): NewJob =>
  newJob(n, { metadata: withSubmitted({ note: "kept" }, submitted), ...overrides })

const numbers = (submitted: Submitted, query: JobQuery = {}, limit = 100) =>
  Effect.map(allJobs({ ...query, labels: labelsWith(submitted), limit }), (jobs) =>
    jobs.map(({ id }) => Number(id.slice("job_".length))),
  )

const counts = (submitted: Submitted, question: { readonly within?: number; readonly project?: number } = {}) =>
  Effect.flatMap(JobDirectory, (directory) =>
    directory.countJobs({
      finishedWithinMs: question.within ?? 1_000,
      projectId: question.project === undefined ? undefined : projectId(question.project),
      labels: labelsWith(submitted),
    }),
  )

/** 1 queued, 2 held, 3 done, 4 failed, 5 delayed with the tag `a`, the even ones with `b` too; 6 has another tag, 7 none. */
const arrangeLabeled = Effect.gen(function* () {
  yield* createDone(labeledJob(3, { tags: ["a"], metadata: { order: 7 } }))
  yield* advance(10)
  yield* createFailed(labeledJob(4, { tags: ["a", "b"], metadata: { order: "7" } }))
  yield* advance(10)
  yield* createAndClaim(labeledJob(2, { tags: ["b", "a"], metadata: { order: 7, rush: true } }))
  yield* advance(10)
  yield* create(labeledJob(1, { tags: ["a"] }), labeledJob(5, { tags: ["a"] }, { delayMs: 60_000 }))
  yield* advance(10)
  yield* create(labeledJob(6, { tags: ["aa"] }), newJob(7))
})

/** Jobs found by what their callers attached to them. */
export const labels: Section = {
  name: "JobDirectory.listJobs: labels",
  checks: [
    check(
      "lists the jobs that have all labels, newest first, in pages of any size",
      Effect.gen(function* () {
        yield* arrangeLabeled
        for (const limit of [100, 1, 2]) {
          expect(yield* numbers({ tags: ["a"] }, {}, limit)).toEqual([5, 1, 2, 4, 3])
          expect(yield* numbers({ tags: ["a", "b"] }, {}, limit)).toEqual([2, 4])
        }
        expect(yield* numbers({ tags: ["b", "a"] })).toEqual([2, 4])
        expect(yield* numbers({ tags: ["aa"] })).toEqual([6])
        expect(yield* numbers({ tags: ["a", "aa"] })).toEqual([])
        expect(yield* numbers({ tags: ["c"] })).toEqual([])
      }),
    ),

    check(
      "tells metadata by name, value and type, and from tags",
      Effect.gen(function* () {
        yield* arrangeLabeled
        expect(yield* numbers({ metadata: { order: 7 } })).toEqual([2, 3])
        expect(yield* numbers({ metadata: { order: "7" } })).toEqual([4])
        expect(yield* numbers({ metadata: { order: 7, rush: true } })).toEqual([2])
        expect(yield* numbers({ tags: ["b"], metadata: { order: 7 } })).toEqual([2])
        expect(yield* numbers({ metadata: { a: true } })).toEqual([])
        expect(yield* numbers({ tags: ["order"] })).toEqual([])
        expect(yield* numbers({ metadata: { note: "kept" } })).toEqual([])
      }),
    ),

    check(
      "with every other filter",
      Effect.gen(function* () {
        yield* arrangeLabeled
        expect(yield* numbers({ tags: ["a"] }, { status: "queued" })).toEqual([5, 1])
        expect(yield* numbers({ tags: ["a"] }, { status: "done" })).toEqual([3])
        expect(yield* numbers({ tags: ["a"] }, { kind: "transcription" })).toEqual([])
        expect(yield* numbers({ tags: ["a"] }, { mode: "sandbox", projectId: projectId(1) })).toEqual([5, 1, 2, 4, 3])
        expect(yield* numbers({ tags: ["a"] }, { projectId: projectId(2) })).toEqual([])
        expect(yield* numbers({ tags: ["a"] }, { createdFrom: 10, createdTo: 30 })).toEqual([2, 4])
      }),
    ),

    check(
      "counts them by status",
      Effect.gen(function* () {
        yield* arrangeLabeled
        const kind = newJob(1).kind
        const of = (status: string) => ({ kind, mode: "sandbox", status, count: 1 })
        const all = yield* counts({ tags: ["a"] })
        expect(all).toEqual(["delayed", "done", "failed", "processing", "queued"].map(of))
        expect(yield* counts({ tags: ["a", "b"] })).toEqual(["failed", "processing"].map(of))
        expect(yield* counts({ tags: ["a"] }, { project: 2 })).toEqual([])
        yield* advance(1_000)
        expect(yield* counts({ tags: ["a", "b"] })).toEqual([of("processing")])
      }),
    ),

    check(
      "finds a job whose data was erased, and none whose record was deleted",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* arrangeLabeled
        const done = yield* read(newJob(3))
        yield* store.eraseJobs([{ jobId: done.id, principal: ownerOf(done) }])
        expect(yield* numbers({ tags: ["a"] }, { status: "done" })).toEqual([3])
        expect((yield* read(newJob(3))).metadata).toEqual(done.metadata)
        yield* store.deleteJobs(0, 10)
        expect(yield* numbers({ tags: ["a"] })).toEqual([5, 1, 2])
      }),
    ),
  ],
}

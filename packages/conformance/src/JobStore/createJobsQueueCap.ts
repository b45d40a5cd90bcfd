import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, complete, create, createAndClaim, createTags } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob, projectId } from "../fixtures.ts"

export const createJobsQueueCap: Section = {
  name: "JobStore.createJobs: queue cap",
  checks: [
    check(
      "counts unfinished jobs of the project, this one included",
      Effect.gen(function* () {
        const queueCap = 2
        yield* create(newJob(1, { queueCap }), newJob(2, { queueCap }))
        expect(yield* createTags(newJob(3, { queueCap }))).toEqual(["QueueFull"])
        expect(yield* createTags(newJob(4, { queueCap: 3 }))).toEqual(["Created"])
      }),
    ),

    check(
      "counts within one batch",
      Effect.gen(function* () {
        const queueCap = 2
        expect(yield* createTags(newJob(1, { queueCap }), newJob(2, { queueCap }), newJob(3, { queueCap }))).toEqual([
          "Created",
          "Created",
          "QueueFull",
        ])
      }),
    ),

    check(
      "0 is no cap",
      Effect.gen(function* () {
        yield* create(...Array.from({ length: 50 }, (_, n) => newJob(n, { queueCap: 0 })))
      }),
    ),

    check(
      "processing jobs count, finished ones do not",
      Effect.gen(function* () {
        const queueCap = 1
        const claimed = yield* createAndClaim(newJob(1, { queueCap }))
        expect(yield* createTags(newJob(2, { queueCap }))).toEqual(["QueueFull"])
        yield* complete(claimed)
        expect(yield* createTags(newJob(2, { queueCap }))).toEqual(["Created"])
      }),
    ),

    check(
      "every way to finish makes room",
      Effect.gen(function* () {
        const store = yield* JobStore
        const queueCap = 1
        const limits = { queueLimitMs: 100_000, runLimitMs: 100_000 }
        const { token } = yield* createAndClaim(newJob(1, { queueCap }))
        yield* store.failJobs([{ jobId: jobId(1), token, errorCode: "internal_error" }])
        yield* create(newJob(2, { queueCap, limits }))
        yield* advance(100_000)
        expect(yield* store.expireJobs(10)).toHaveLength(1)
        yield* createAndClaim(newJob(3, { queueCap }), { leaseDurationMs: 1 })
        yield* advance(1)
        expect((yield* claim({ maxLostWorkers: 1 })).abandoned).toEqual([jobId(3)])
        yield* create(newJob(4, { queueCap }))
      }),
    ),

    check(
      "other projects do not count",
      Effect.gen(function* () {
        const queueCap = 1
        yield* create(newJob(1, { queueCap }), newJob(2, { queueCap, projectId: projectId(2) }))
        expect(yield* createTags(newJob(3, { queueCap }), newJob(4, { queueCap, projectId: projectId(2) }))).toEqual([
          "QueueFull",
          "QueueFull",
        ])
      }),
    ),
  ],
}

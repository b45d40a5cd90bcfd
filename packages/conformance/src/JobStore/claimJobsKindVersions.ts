import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, type Runnable } from "@kiln/core/ports"
import { advance, claim, claimedNumbers, claimOne, create, createTags, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob } from "../fixtures.ts"

const speech = (...versions: ReadonlyArray<number>): ReadonlyArray<Runnable> =>
  versions.map((kindVersion) => ({ kind: "speech_synthesis", kindVersion, mode: "sandbox" }))

const ascending = (a: number, b: number): number => a - b

/** Workers of two releases: each gets the jobs it can run, and no other jobs block it. */
export const kindVersions: Section = {
  name: "JobStore.claimJobs: kind versions",
  checks: [
    check(
      "a job keeps the version it was accepted with",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = newJob(1, { kindVersion: 3 })
        expect((yield* create(job))[0]).toMatchObject({ kind: "speech_synthesis", kindVersion: 3 })
        const [again] = yield* store.createJobs([{ ...job, id: jobId(2), kindVersion: 4 }])
        expect(again).toMatchObject({ _tag: "Replayed", job: { id: jobId(1), kindVersion: 3 } })
        expect((yield* claimOne({ runnable: speech(3) })).job.kindVersion).toBe(3)
        expect((yield* read(job)).kindVersion).toBe(3)
      }),
    ),

    check(
      "a worker gets the versions it names, and no others",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(...[1, 2, 3, 4].map((n) => newJob(n, { kindVersion: n })))
        expect(claimedNumbers(yield* claim({ runnable: speech(1, 3) })).toSorted(ascending)).toEqual([1, 3])
        expect(yield* claim({ runnable: speech(5) })).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
        const { token } = yield* claimOne({ runnable: speech(2) })
        yield* store.releaseJobs([{ jobId: jobId(2), token }])
        expect(claimedNumbers(yield* claim({ runnable: speech(1, 3) }))).toEqual([])
        expect(claimedNumbers(yield* claim({ runnable: speech(2, 2, 4) })).toSorted(ascending)).toEqual([2, 4])
      }),
    ),

    check(
      "kinds and versions that look alike are distinguished",
      Effect.gen(function* () {
        yield* create(
          newJob(1, { kind: "speech", kindVersion: 12 }),
          newJob(2, { kind: "speech1", kindVersion: 2 }),
          newJob(3, { kind: "speech12", kindVersion: 1 }),
        )
        for (const [n, kind, kindVersion] of [
          [2, "speech1", 2],
          [3, "speech12", 1],
          [1, "speech", 12],
        ] as const)
          expect(claimedNumbers(yield* claim({ runnable: [{ kind, kindVersion, mode: "sandbox" }] }))).toEqual([n])
      }),
    ),

    check(
      "jobs of a version that no worker here runs do not delay the others of their project",
      Effect.gen(function* () {
        yield* create(...Array.from({ length: 300 }, (_, n) => newJob(1_000 + n, { kindVersion: 2 })))
        yield* advance(1)
        yield* create(newJob(1), newJob(2))
        expect(claimedNumbers(yield* claim({ runnable: speech(1), limit: 1 }))).toEqual([1])
        expect(claimedNumbers(yield* claim({ runnable: speech(1) }))).toEqual([2])
      }),
    ),

    check(
      "versions of one kind are separate lanes, and take turns",
      Effect.gen(function* () {
        const many = (from: number, kindVersion: number) =>
          Array.from({ length: 50 }, (_, n) => newJob(from + n, { kindVersion }))
        yield* create(...many(1, 1), ...many(5_000, 2))
        const numbers = claimedNumbers(yield* claim({ runnable: speech(1, 2), limit: 10 }))
        expect(numbers.filter((n) => n >= 5_000)).toHaveLength(5)
      }),
    ),

    check(
      "a job of a version that no worker runs counts for the queue cap, and ends with its queue limit",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = newJob(1, { kindVersion: 9, limits: { queueLimitMs: 100, runLimitMs: 100 } })
        yield* create(job)
        expect(yield* createTags(newJob(2, { queueCap: 1 }))).toEqual(["QueueFull"])
        yield* advance(100)
        expect(yield* store.expireJobs(10)).toHaveLength(1)
        expect(yield* read(job)).toMatchObject({ kindVersion: 9, errorCode: "queue_timeout" })
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ClaimRequest, JobStore, type NewJob } from "@kiln/core/ports"
import { advance, claim, claimedNumbers, claimRequest, create, createUploaded, first, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import {
  audioGate,
  completionOf,
  jobId,
  leaseDurationMs,
  newJob,
  newLiveJob,
  newUploadJob,
  projectId,
} from "../fixtures.ts"

/** Creates jobs and claims. A store that created without claiming is asked for the claim. */
const createThenClaim = Effect.fnUntraced(function* (jobs: ReadonlyArray<NewJob>, request: Partial<ClaimRequest> = {}) {
  const store = yield* JobStore
  const { claimed, created } = yield* store.createAndClaimJobs(jobs, { ...claimRequest, ...request })
  return { created, claimed: claimed ?? (yield* claim(request)) }
})

/** A creation and a claim in one transaction, which must have the results of one after the other. */
export const createAndClaimJobs: Section = {
  name: "JobStore.createAndClaimJobs",
  checks: [
    check(
      "hands out a created job under a lease and a token",
      Effect.gen(function* () {
        const { claimed, created } = yield* createThenClaim([newJob(1)])
        const outcome = first(created)
        if (outcome._tag !== "Created") throw new Error(`expected Created, got ${outcome._tag}`)
        expect(outcome.job).toMatchObject({ status: "queued", held: false, token: 0, attempts: 0 })
        expect(claimed).toMatchObject({ abandoned: [], nextInMs: leaseDurationMs })
        const taken = first(claimed.claims)
        expect(taken).toMatchObject({ token: 1, leaseRemainingMs: leaseDurationMs, upload: null })
        expectMoved(outcome.job, { event: "claimed", leaseDurationMs }, 0, taken.job)
        expect(yield* read(newJob(1))).toEqual(taken.job)
      }),
    ),

    check(
      "the claim holds to the end of its lease, and can write nothing after it",
      Effect.gen(function* () {
        const store = yield* JobStore
        const zombie = first((yield* createThenClaim([newJob(1)])).claimed.claims)
        yield* advance(leaseDurationMs - 1)
        expect((yield* claim()).claims).toEqual([])
        yield* advance(1)
        const second = first((yield* claim()).claims)
        expect(second).toMatchObject({ token: 2, job: { attempts: 2, lostWorkers: 1 } })
        expect(yield* store.completeJobs([completionOf(zombie)])).toEqual(["LeaseLost"])
        expect(yield* store.completeJobs([completionOf(second)])).toEqual(["Written"])
      }),
    ),

    check(
      "claims in the order of all jobs, so the created job may have to wait",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2))
        yield* advance(10)
        const { claimed, created } = yield* createThenClaim([newJob(3)], { limit: 2 })
        expect(created.map(({ _tag }) => _tag)).toEqual(["Created"])
        expect(claimedNumbers(claimed)).toEqual([1, 2])
        expect(claimed.nextInMs).toBe(0)
        expect(yield* read(newJob(3))).toMatchObject({ status: "queued", token: 0 })
      }),
    ),

    check(
      "claims only what the request allows",
      Effect.gen(function* () {
        const jobs = [
          newJob(1),
          newJob(2, { kind: "image_generation" }),
          newJob(3),
          newJob(4, { projectId: projectId(2) }),
        ]
        const { claimed } = yield* createThenClaim(jobs, { limits: { perKind: {}, perProject: 1 } })
        expect(claimedNumbers(claimed)).toEqual([1, 4])
        const room = { free: { live: 0, sandbox: 0 }, perProject: 0, held: [] }
        expect((yield* createThenClaim([newJob(5)], { worker: room })).claimed.claims).toEqual([])
        expect((yield* createThenClaim([newJob(6)], { runnable: [] })).claimed.claims).toEqual([])
        expect((yield* createThenClaim([newJob(7)], { limit: 0 })).claimed).toMatchObject({ claims: [], nextInMs: 0 })
      }),
    ),

    check(
      "does not claim a delayed job before its time",
      Effect.gen(function* () {
        const { claimed } = yield* createThenClaim([newJob(1, { delayMs: 500 })])
        expect(claimed).toEqual({ claims: [], abandoned: [], nextInMs: 500 })
      }),
    ),

    check(
      "each job has its own outcome, and refused jobs do not affect the claim",
      Effect.gen(function* () {
        yield* create(newJob(1))
        const { claimed, created } = yield* createThenClaim([newJob(1), newLiveJob(2, { gate: audioGate }), newJob(3)])
        expect(created.map(({ _tag }) => _tag)).toEqual(["Replayed", "GateClosed", "Created"])
        expect(claimedNumbers(claimed)).toEqual([1, 3])
      }),
    ),

    check(
      "a repeat creates nothing and claims nothing again",
      Effect.gen(function* () {
        const claimed = first((yield* createThenClaim([newJob(1)])).claimed.claims)
        const repeated = yield* createThenClaim([newJob(1)])
        expect(repeated.created.map(({ _tag }) => _tag)).toEqual(["Replayed"])
        expect(repeated.claimed).toMatchObject({ claims: [], nextInMs: leaseDurationMs })
        expect(yield* read(newJob(1))).toEqual(claimed.job)
      }),
    ),

    check(
      "includes the upload that the created job has just consumed",
      Effect.gen(function* () {
        const upload = yield* createUploaded(1)
        const { claimed } = yield* createThenClaim([newUploadJob(1)])
        expect(first(claimed.claims).upload).toEqual({ ...upload, jobId: jobId(1) })
      }),
    ),

    check(
      "takes over and abandons jobs of lost workers like every claim",
      Effect.gen(function* () {
        yield* createThenClaim([newJob(1), newJob(2)], { limit: 1 })
        yield* advance(leaseDurationMs)
        const { claimed } = yield* createThenClaim([newJob(3)], { maxLostWorkers: 1 })
        expect(claimed.abandoned).toEqual([jobId(1)])
        expect(claimedNumbers(claimed)).toEqual([2, 3])
        expect(yield* read(newJob(1))).toMatchObject({ status: "failed", errorCode: "attempts_exhausted" })
      }),
    ),
  ],
}

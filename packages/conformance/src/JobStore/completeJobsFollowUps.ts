import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { JobStore, type NewJob, Switchboard } from "@kiln/core/ports"
import {
  advance,
  capSpending,
  claim,
  claimedNumbers,
  claimRequest,
  complete,
  create,
  createAndClaim,
  createTags,
  exists,
  findFile,
  first,
  openAudioGate,
  read,
  spendingOf,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import {
  audioGate,
  completionOf,
  fileId,
  keyId,
  leaseDurationMs,
  newJob,
  newLiveJob,
  outputFile,
  projectId,
} from "../fixtures.ts"

/** A live follow-up as the engine makes it: its switches and its worker are left to the claim. */
const newLiveFollowUp = (n: number, overrides: Partial<NewJob> = {}): NewJob =>
  newLiveJob(n, { gate: { ...audioGate, switches: [], liveWorker: null }, ...overrides })

const nothing = { reserved: "0", day: "0", month: "0" }

/** Jobs that are created with the completion of another one. */
export const completeJobsFollowUps: Section = {
  name: "JobStore.completeJobs: follow-ups",
  checks: [
    check(
      "creates them with the end of the job, each like any new job",
      Effect.gen(function* () {
        const claimed = yield* createAndClaim()
        yield* advance(1_500)
        const followUps = [
          newJob(2, { priority: "high", metadata: { model: "small" } }),
          newJob(3, { delayMs: 500, kind: "transcription", idempotencyKey: `submit ${claimed.job.id} later` }),
        ]
        yield* complete(claimed, { followUps })
        expect(yield* read(newJob(2))).toMatchObject({
          status: "queued",
          priority: "high",
          metadata: { model: "small" },
          request: newJob(2).request,
          createdAt: 1_500,
          claimableAt: 1_500,
          attempts: 0,
        })
        expect(yield* read(newJob(3))).toMatchObject({
          status: "queued",
          claimableAt: 2_000,
          fingerprint: newJob(3).fingerprint,
        })
        expect(claimedNumbers(yield* claim())).toEqual([2])
        yield* advance(500)
        expect(claimedNumbers(yield* claim())).toEqual([3])
      }),
    ),

    check(
      "in one batch each job brings its own, and one without any brings none",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2), newJob(3))
        const { claims } = yield* claim({ limit: 3 })
        const batch = claims.map((claimed, index) =>
          completionOf(claimed, {
            files: [outputFile(claimed, index)],
            ...(index !== 1 && { followUps: [newJob(10 + index), newJob(20 + index)] }),
          }),
        )
        expect(yield* store.completeJobs([...batch].reverse())).toEqual(["Written", "Written", "Written"])
        expect(new Set(claimedNumbers(yield* claim()))).toEqual(new Set([10, 12, 20, 22]))
        expect(yield* findFile(fileId(1))).toMatchObject({ jobId: claims[1]?.job.id })
      }),
    ),

    check(
      "a repeat creates nothing again, in one batch or in two",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claimed = yield* createAndClaim()
        const completion = completionOf(claimed, { followUps: [newJob(2)] })
        expect(yield* store.completeJobs([completion, completion])).toEqual(["Written", "Written"])
        const [first] = (yield* claim()).claims
        expect(first?.job.id).toBe(newJob(2).id)
        // The follow-ups of a repeat count as little as its output.
        const repeated = completionOf(claimed, { followUps: [newJob(2), newJob(3)] })
        expect(yield* store.completeJobs([repeated])).toEqual(["Written"])
        expect(yield* read(newJob(2))).toEqual(first?.job)
        expect(yield* exists(newJob(3))).toBe(false)
      }),
    ),

    check(
      "a completion that is not written creates nothing: a lost lease, a canceled job, a failed one, a lower token",
      Effect.gen(function* () {
        const store = yield* JobStore
        const lost = yield* createAndClaim(newJob(1))
        yield* advance(leaseDurationMs)
        const [taken] = (yield* claim()).claims
        const canceled = yield* createAndClaim(newJob(2))
        yield* store.cancelJobs([canceled.job.id])
        const failed = yield* createAndClaim(newJob(3))
        yield* store.failJobs([{ jobId: failed.job.id, token: failed.token, errorCode: "internal_error" }])
        const good = yield* createAndClaim(newJob(4))
        const batch = [lost, canceled, good, failed].map((claimed, index) =>
          completionOf(claimed, { followUps: [newJob(10 + index)] }),
        )
        expect(yield* store.completeJobs(batch)).toEqual(["LeaseLost", "LeaseLost", "Written", "LeaseLost"])
        for (const n of [10, 11, 13]) expect(yield* exists(newJob(n))).toBe(false)
        expect(yield* read(newJob(12))).toMatchObject({ status: "queued" })
        if (taken === undefined) throw new Error("the lost job was not claimed again")
        yield* complete(taken, { followUps: [newJob(10)] })
        expect(yield* read(newJob(10))).toMatchObject({ status: "queued" })
      }),
    ),

    check(
      "are those of the claim that ends the job, also beside a completion of an earlier claim of it",
      Effect.gen(function* () {
        const store = yield* JobStore
        const earlier = yield* createAndClaim(newJob(1))
        yield* advance(leaseDurationMs)
        const later = first((yield* claim()).claims)
        const batch = [
          completionOf(earlier, { followUps: [newJob(10)] }),
          completionOf(later, { followUps: [newJob(11)] }),
        ]
        expect(yield* store.completeJobs(batch)).toEqual(["LeaseLost", "Written"])
        expect(yield* exists(newJob(10))).toBe(false)
        expect(yield* read(newJob(11))).toMatchObject({ status: "queued" })
      }),
    ),

    check(
      "a defect of the completion leaves neither its end nor its follow-ups",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        const live = yield* createAndClaim(newLiveJob(1))
        const wrong = completionOf(live, { charge: null, followUps: [newJob(2)] })
        expect(Exit.isFailure(yield* Effect.exit(store.completeJobs([wrong])))).toBe(true)
        expect(yield* read(live.job)).toEqual(live.job)
        expect(yield* exists(newJob(2))).toBe(false)
        yield* complete(live, { followUps: [newJob(2)] })
        expect(yield* exists(newJob(2))).toBe(true)
      }),
    ),

    check(
      "are claimed by the same call at the earliest, and by another at the latest",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claimed = yield* createAndClaim()
        const { claimed: joint, completed } = yield* store.completeAndClaimJobs(
          [completionOf(claimed, { followUps: [newJob(2)] })],
          claimRequest,
        )
        expect(completed).toEqual(["Written"])
        const first = joint === undefined ? [] : claimedNumbers(joint)
        expect([...first, ...claimedNumbers(yield* claim())]).toEqual([2])
      }),
    ),

    check(
      "a live one reserves its cost at today's price, with what the ended job no longer reserves",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* capSpending(projectId(1), { day: "0.0003" })
        yield* capSpending(keyId(1), { day: "0.0003" })
        const claimed = yield* createAndClaim(newLiveJob(1))
        expect(yield* spendingOf(projectId(1))).toEqual({ ...nothing, reserved: "0.00015" })
        // One has room beside the charge of the ended job. The second one exists too, as failed.
        yield* complete(claimed, { followUps: [newLiveFollowUp(2), newLiveFollowUp(3)] })
        const spent = { reserved: "0.00015", day: "0.00015", month: "0.00015" }
        expect(yield* spendingOf(projectId(1))).toEqual(spent)
        expect(yield* spendingOf(keyId(1))).toEqual(spent)
        expect((yield* read(newLiveJob(2))).price).toMatchObject({ name: "svc-audio", version: 1 })
        expect(yield* read(newLiveJob(3))).toMatchObject({
          status: "failed",
          errorCode: "not_accepted",
          output: { message: expect.stringContaining("spend cap") },
          price: null,
          charge: null,
          retained: "kept",
          request: newJob(3).request,
          attempts: 0,
        })
        const { claims } = yield* claim()
        expect(claims.map(({ job }) => job.id)).toEqual([newJob(2).id])
        for (const each of claims) expect((yield* complete(each)).status).toBe("done")
        expect(yield* spendingOf(projectId(1))).toEqual({ reserved: "0", day: "0.0003", month: "0.0003" })
      }),
    ),

    check(
      "one whose price is missing exists as failed, and can be retried once there is one",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const store = yield* JobStore
        yield* openAudioGate
        const [claimed] = [yield* createAndClaim(newLiveJob(1))]
        yield* board.activatePrice("svc-audio", false)
        expect(
          (yield* complete(claimed, { followUps: [newLiveFollowUp(2), newJob(3, { mode: "live" })] })).charge,
        ).not.toBe(null)
        expect(yield* read(newLiveJob(2))).toMatchObject({
          status: "failed",
          errorCode: "not_accepted",
          output: { message: expect.stringContaining("price:svc-audio") },
        })
        // Free jobs need no price.
        expect(yield* read(newJob(3, { mode: "live" }))).toMatchObject({ status: "queued", price: null })
        expect(yield* store.expireJobs(10)).toEqual([])
        const retry = newLiveJob(4, { retryOf: newJob(2).id })
        expect(yield* createTags(retry)).toEqual(["GateClosed"])
        yield* board.activatePrice("svc-audio", true)
        expect(yield* createTags(retry)).toEqual(["Created"])
      }),
    ),
  ],
}

import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Job } from "@kiln/core/domain"
import { type Completion, JobStore } from "@kiln/core/ports"
import {
  advance,
  claim,
  claimOne,
  create,
  createAndClaim,
  duePurges,
  exists,
  findFile,
  openAudioGate,
  read,
} from "../arrange.ts"
import { check, type Check } from "../Check.ts"
import { charge, completionOf, fileId, jobId, newJob, newLiveJob, outputFile, ownerOf } from "../fixtures.ts"

const completing = (...items: ReadonlyArray<Completion>) =>
  Effect.flatMap(JobStore, (store) => store.completeJobs(items))

/** A completion, and another by the same claim with a different value in every field. */
const twoCompletions = (claimed: Parameters<typeof completionOf>[0]): readonly [Completion, Completion] => [
  completionOf(claimed, { output: { text: "first" }, files: [outputFile(claimed, 1)] }),
  completionOf(claimed, {
    output: { text: "second" },
    files: [outputFile(claimed, 2), { ...outputFile(claimed, 3), name: "captions" }],
    warningCode: "output_truncated",
    charge: claimed.job.mode === "live" ? { ...charge, amount: "77" } : null,
  }),
]

/** Expects that the completion is `Written` and changes nothing. */
const expectNothingNew = Effect.fnUntraced(function* (job: Job, completion: Completion) {
  const observed = Effect.all([read(job), findFile(fileId(1)), findFile(fileId(2)), findFile(fileId(3)), duePurges])
  const before = yield* observed
  expect(yield* completing(completion)).toEqual(["Written"])
  expect(yield* observed).toEqual(before)
})

/** A worker that ends a claim and gets no response repeats the call, and gets the response of the first call. */
export const repeatedEnds: ReadonlyArray<Check> = [
  check(
    "completeJobs: the first completion stands, even if a repetition differs",
    Effect.gen(function* () {
      yield* openAudioGate
      const claimed = yield* createAndClaim(newLiveJob(1))
      const [one, two] = twoCompletions(claimed)
      yield* advance(10)
      expect(yield* completing(one)).toEqual(["Written"])
      const done = yield* read(claimed.job)
      expect(done).toMatchObject({ output: one.output, files: one.files, warningCode: null, charge, finishedAt: 10 })
      yield* advance(86_400_000)
      for (const again of [one, two]) yield* expectNothingNew(done, again)
    }),
  ),

  check(
    "completeJobs: twice in one batch, the first is written",
    Effect.gen(function* () {
      yield* openAudioGate
      yield* create(newLiveJob(1), newLiveJob(2))
      const [claimed, other] = (yield* claim({ limit: 2 })).claims
      if (claimed === undefined || other === undefined) throw new Error("expected two claims")
      const [one, two] = twoCompletions(claimed)
      expect(yield* completing(one, completionOf(other), two)).toEqual(["Written", "Written", "Written"])
      expect(yield* read(claimed.job)).toMatchObject({
        output: one.output,
        files: one.files,
        warningCode: null,
        charge,
      })
      for (const n of [2, 3]) expect(yield* findFile(fileId(n))).toBe(undefined)
    }),
  ),

  check(
    "completeJobs: of many concurrent calls one is written, and all get `Written`",
    Effect.gen(function* () {
      const claimed = yield* createAndClaim()
      const completions = Array.from({ length: 10 }, (_, n) =>
        completionOf(claimed, { output: { n }, files: [outputFile(claimed, n)] }),
      )
      const outcomes = yield* Effect.forEach(completions, (one) => completing(one), { concurrency: "unbounded" })
      expect(outcomes.flat()).toEqual(completions.map(() => "Written"))
      const { output, files } = yield* read(claimed.job)
      expect(completions.map((one) => ({ output: one.output, files: one.files }))).toContainEqual({ output, files })
    }),
  ),

  check(
    "completeJobs: erased data is not restored, and the outcome stays the same",
    Effect.gen(function* () {
      const store = yield* JobStore
      const claimed = yield* createAndClaim()
      const [one] = twoCompletions(claimed)
      yield* completing(one)
      expect((yield* store.expireData(0, 10)).count).toBe(1)
      yield* expectNothingNew(claimed.job, one)
      yield* store.eraseJobs([{ jobId: jobId(1), principal: ownerOf(claimed.job) }])
      yield* expectNothingNew(claimed.job, one)
      expect(yield* read(claimed.job)).toMatchObject({ retained: "deleted", output: null, files: [] })
    }),
  ),

  check(
    "a repeat for a removed record gets LeaseLost, and no record is created",
    Effect.gen(function* () {
      const store = yield* JobStore
      const { job, token } = yield* createAndClaim()
      const ref = { jobId: job.id, token }
      yield* store.failJobs([{ ...ref, errorCode: "internal_error" }])
      yield* store.deleteJobs(0, 10)
      expect(yield* store.failJobs([{ ...ref, errorCode: "internal_error" }])).toEqual(["LeaseLost"])
      expect(yield* completing(completionOf({ job, token }))).toEqual(["LeaseLost"])
      expect(yield* exists(job)).toBe(false)
    }),
  ),

  check(
    "failJobs: a repeat has the same code; another code is another end",
    Effect.gen(function* () {
      const store = yield* JobStore
      const { job, token } = yield* createAndClaim()
      const failing = (errorCode: "audio_too_long" | "internal_error") =>
        store.failJobs([{ jobId: job.id, token, errorCode }])
      expect(yield* failing("audio_too_long")).toEqual(["Written"])
      yield* advance(5_000)
      for (const age of ["kept", "expired"]) {
        const failed = yield* read(job)
        expect(failed).toMatchObject({ errorCode: "audio_too_long", finishedAt: 0, retained: age })
        expect(yield* failing("audio_too_long")).toEqual(["Written"])
        expect(yield* failing("internal_error")).toEqual(["LeaseLost"])
        expect(yield* read(job)).toEqual(failed)
        yield* store.expireData(0, 10)
      }
    }),
  ),

  check(
    "deferJobs: counted once, and the first delay stands; recognized until the next claim",
    Effect.gen(function* () {
      const store = yield* JobStore
      const { job, token } = yield* createAndClaim()
      const deferring = (delayMs: number) => store.deferJobs([{ jobId: job.id, token, delayMs, countsAsFailure: true }])
      expect(yield* deferring(2_000)).toEqual(["Written"])
      const deferred = yield* read(job)
      expect(deferred).toMatchObject({ failures: 1, claimableAt: 2_000 })
      for (const delayMs of [2_000, 0, 60_000]) {
        yield* advance(1_000)
        expect(yield* deferring(delayMs)).toEqual(["Written"])
        expect(yield* read(job)).toEqual(deferred)
      }
      const successor = yield* claimOne()
      expect(yield* deferring(2_000)).toEqual(["LeaseLost"])
      expect(yield* read(job)).toEqual(successor.job)
    }),
  ),

  check(
    "deferJobs, releaseJobs: a job returns to the queue once, and the first return stands",
    Effect.gen(function* () {
      const store = yield* JobStore
      yield* create(newJob(1), newJob(2))
      yield* advance(500)
      for (const { job, token } of (yield* claim({ limit: 2 })).claims) {
        const release = store.releaseJobs([{ jobId: job.id, token }])
        const defer = store.deferJobs([{ jobId: job.id, token, delayMs: 3_000, countsAsFailure: true }])
        const [first, second] = job.id === jobId(1) ? [release, defer] : [defer, release]
        expect(yield* first).toEqual(["Written"])
        const before = yield* read(job)
        expect(before).toMatchObject(
          job.id === jobId(1) ? { failures: 0, claimableAt: 0 } : { failures: 1, claimableAt: 3_501 },
        )
        yield* advance(1)
        for (const again of [second, first]) {
          expect(yield* again).toEqual(["Written"])
          expect(yield* read(job)).toEqual(before)
        }
      }
      expect((yield* claim({ limit: 2 })).claims.map((claimed) => claimed.job.id)).toEqual([jobId(1)])
    }),
  ),
]

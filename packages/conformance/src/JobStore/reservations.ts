import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, Switchboard } from "@kiln/core/ports"
import {
  advance,
  capSpending as cap,
  claim,
  claimOne,
  complete,
  create,
  createAndClaim,
  createFailed,
  createTags,
  openAudioGate,
  read,
  spendingOf,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { charge, jobId, keyId, newLiveJob, projectId } from "../fixtures.ts"

const day = 86_400_000

// A live job costs at most 10 characters at 0.000015, which is 0.00015, as does the charge of the fixtures.
const most = "0.00015"

const nothing = { reserved: "0", day: "0", month: "0" }

/** Amounts that count against a spend cap, from a job's creation to its end and beyond. */
export const reservations: Section = {
  name: "JobStore: reservations under spend caps",
  checks: [
    check(
      "the charge takes the place of the reservation",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0.0002" })
        const claimed = yield* createAndClaim(newLiveJob(1))
        expect(yield* createTags(newLiveJob(2))).toEqual(["SpendCapReached"])
        yield* complete(claimed, { charge: { ...charge, amount: "0.00005" } })
        expect(yield* spendingOf(projectId(1))).toEqual({ reserved: "0", day: "0.00005", month: "0.00005" })
        expect(yield* createTags(newLiveJob(2), newLiveJob(3))).toEqual(["Created", "SpendCapReached"])
      }),
    ),

    check(
      "a charge never passes its reservation, whatever the completion says",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "1" })
        const claimed = yield* createAndClaim(newLiveJob(1))
        const [item] = charge.lineItems
        if (item === undefined) throw new Error("expected a line item")
        // 25 characters; 10 are reserved.
        const lineItems = [{ ...item, quantity: 25, amount: "0.000375" }]
        yield* complete(claimed, { charge: { ...charge, amount: "0.000375", lineItems } })
        expect(yield* spendingOf(projectId(1))).toEqual({ reserved: "0", day: most, month: most })
        expect((yield* read(newLiveJob(1)))?.charge).toEqual({
          ...charge,
          amount: most,
          lineItems: [{ ...item, quantity: 10, amount: most }],
        })
        // Without a cap at its acceptance, nothing bounds it.
        yield* (yield* Switchboard).setSpendCap(projectId(1), null)
        const unbounded = yield* createAndClaim(newLiveJob(2))
        yield* complete(unbounded, { charge: { ...charge, amount: "0.000375", lineItems } })
        expect((yield* read(newLiveJob(2)))?.charge?.amount).toBe("0.000375")
      }),
    ),

    check(
      "each job is bounded by its own reservation",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "1" })
        yield* create(newLiveJob(1, { maxUsage: { input_characters: 1 } }), newLiveJob(2), newLiveJob(3))
        const { claims } = yield* claim()
        const [, second] = claims
        if (second === undefined) throw new Error("expected three claims")
        expect((yield* complete(second)).charge).toEqual(charge)
        expect(yield* spendingOf(projectId(1))).toEqual({ reserved: "0.000165", day: most, month: most })
      }),
    ),

    check(
      "a cap counts what was charged to its owner this month, and nothing else",
      Effect.gen(function* () {
        yield* openAudioGate
        const ofOther = newLiveJob(1, { projectId: projectId(2), keyId: keyId(2) })
        yield* complete(yield* createAndClaim(ofOther))
        yield* complete(yield* createAndClaim(newLiveJob(2)))
        yield* advance(40 * day)
        yield* openAudioGate
        yield* complete(yield* createAndClaim(newLiveJob(3)))
        yield* complete(yield* createAndClaim(newLiveJob(4, { projectId: projectId(2), keyId: keyId(2) })))
        for (const owner of [projectId(1), keyId(1)]) {
          yield* cap(owner, { day: "1" })
          expect(yield* spendingOf(owner)).toEqual({ reserved: "0", day: most, month: most })
        }
      }),
    ),

    check(
      "every way to end without a charge frees the reservation, once",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0.00015" })
        const limits = { queueLimitMs: 100_000, runLimitMs: 100_000 }
        yield* createFailed(newLiveJob(1))
        expect(yield* spendingOf(projectId(1))).toEqual(nothing)
        yield* create(newLiveJob(2, { limits }))
        yield* advance(100_000)
        expect(yield* store.expireJobs(10)).toHaveLength(1)
        yield* create(newLiveJob(3))
        expect(yield* store.cancelJobs([jobId(3), jobId(3)])).toEqual(["Canceled", "AlreadyFinished"])
        yield* createAndClaim(newLiveJob(4), { leaseDurationMs: 1 })
        yield* advance(1)
        expect((yield* claim({ maxLostWorkers: 1 })).abandoned).toEqual([jobId(4)])
        expect(yield* spendingOf(projectId(1))).toEqual(nothing)
        yield* create(newLiveJob(5))
        expect(yield* createTags(newLiveJob(6))).toEqual(["SpendCapReached"])
      }),
    ),

    check(
      "a reservation lasts over retries and lost workers",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* cap(keyId(1), { day: "0.00015" })
        const { token } = yield* createAndClaim(newLiveJob(1))
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 1, countsAsFailure: true }])
        expect(yield* createTags(newLiveJob(2))).toEqual(["SpendCapReached"])
        yield* advance(1)
        yield* claimOne({ leaseDurationMs: 1 })
        yield* advance(1)
        const again = yield* claimOne()
        expect(yield* createTags(newLiveJob(2))).toEqual(["SpendCapReached"])
        yield* complete(again)
        yield* complete(again)
        expect(yield* spendingOf(keyId(1))).toEqual({ reserved: "0", day: most, month: most })
      }),
    ),

    check(
      "a new day and a new month begin at 0, but reservations go along",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0.0003", month: "0.0006" })
        yield* complete(yield* createAndClaim(newLiveJob(1)))
        yield* create(newLiveJob(2, { limits: { queueLimitMs: 100 * day, runLimitMs: day } }))
        expect(yield* createTags(newLiveJob(3))).toEqual(["SpendCapReached"])
        yield* advance(day)
        yield* openAudioGate
        expect(yield* spendingOf(projectId(1))).toEqual({ reserved: most, day: "0", month: most })
        yield* complete(yield* claimOne())
        yield* complete(yield* createAndClaim(newLiveJob(3)))
        expect(yield* createTags(newLiveJob(4))).toEqual(["SpendCapReached"])
        yield* advance(day)
        yield* openAudioGate
        expect(yield* createTags(newLiveJob(4), newLiveJob(5))).toEqual(["Created", "SpendCapReached"])
        yield* advance(29 * day)
        yield* openAudioGate
        expect(yield* spendingOf(projectId(1))).toEqual({ reserved: most, day: "0", month: "0" })
      }),
    ),

    check(
      "erasing and deleting jobs changes nothing about what was spent",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0.00015" })
        yield* complete(yield* createAndClaim(newLiveJob(1)))
        yield* store.expireData(0, 10)
        yield* store.deleteJobs(0, 10)
        expect(yield* spendingOf(projectId(1))).toEqual({ reserved: "0", day: most, month: most })
        expect(yield* createTags(newLiveJob(2))).toEqual(["SpendCapReached"])
      }),
    ),

    check(
      "what was charged before there was a cap counts, also of jobs accepted before it",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* complete(yield* createAndClaim(newLiveJob(1)))
        const claimed = yield* createAndClaim(newLiveJob(2))
        yield* cap(projectId(1), { day: "0.0005" })
        expect(yield* spendingOf(projectId(1))).toEqual({ reserved: "0", day: most, month: most })
        yield* complete(claimed)
        expect(yield* spendingOf(projectId(1))).toEqual({ reserved: "0", day: "0.0003", month: "0.0003" })
        expect(yield* createTags(newLiveJob(3), newLiveJob(4))).toEqual(["Created", "SpendCapReached"])
      }),
    ),

    check(
      "many finished jobs count exactly, under one cap and under two",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* cap(projectId(1), { month: "0.1" })
        yield* cap(keyId(1), { month: "0.1" })
        for (let round = 0; round < 5; round++) {
          const numbers = Array.from({ length: 60 }, (_, n) => 1 + round * 60 + n)
          yield* create(...numbers.map((n) => newLiveJob(n)))
          const { claims } = yield* claim()
          yield* store.completeJobs(
            claims.map(({ job, token }) => ({
              jobId: job.id,
              token,
              output: {},
              files: [],
              warningCode: null,
              charge: { ...charge, amount: "0.0000501" },
            })),
          )
        }
        for (const owner of [projectId(1), keyId(1)])
          expect(yield* spendingOf(owner)).toEqual({ reserved: "0", day: "0.01503", month: "0.01503" })
        yield* cap(keyId(1), { month: "0.1" })
        expect(yield* spendingOf(keyId(1))).toEqual({ reserved: "0", day: "0.01503", month: "0.01503" })
      }),
    ),
  ],
}

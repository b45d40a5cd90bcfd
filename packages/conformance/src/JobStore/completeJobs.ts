import { expect } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { type Charge, warningCodes } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, complete, create, createAndClaim, findFile, openAudioGate, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import {
  charge,
  completionOf,
  fileId,
  leaseDurationMs,
  newJob,
  newLiveJob,
  outputFile,
  queueLimitMs,
} from "../fixtures.ts"

/** Returns the charge for `n` characters, for `n` below 10. */
const chargeOf = (n: number): Charge => ({
  currency: "usd",
  amount: `0.${n}`,
  lineItems: [{ meter: "input_characters", quantity: n, unitAmount: "0.1", amount: `0.${n}` }],
})

/** Completing jobs. `fencing` checks that only the holder of a claim may do so. */
export const completeJobs: Section = {
  name: "JobStore.completeJobs",
  checks: [
    check(
      "commits output, files and warning with the end of the job",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claimed = yield* createAndClaim()
        yield* advance(1_500)
        const files = [outputFile(claimed, 1), { ...outputFile(claimed, 2), name: "captions" }]
        const output = { text: "é😀", list: [1, { a: null }] }
        expect(
          yield* store.completeJobs([completionOf(claimed, { output, files, warningCode: "output_truncated" })]),
        ).toEqual(["Written"])
        const done = yield* read(claimed.job)
        expectMoved(claimed.job, { event: "completed", token: claimed.token }, 1_500, done)
        expect(done).toMatchObject({
          status: "done",
          output,
          files,
          warningCode: "output_truncated",
          charge: null,
          retained: "kept",
          request: newJob(1).request,
          finishedAt: 1_500,
          ranMs: 1_500,
        })
        expect((yield* claim()).nextInMs).toBe(undefined)
      }),
    ),

    check(
      "counts running time up to the end of the lease, even if the completion is late",
      Effect.gen(function* () {
        const claimed = yield* createAndClaim()
        yield* advance(leaseDurationMs + 9_000)
        const done = yield* complete(claimed)
        expectMoved(claimed.job, { event: "completed", token: claimed.token }, leaseDurationMs + 9_000, done)
        expect(done).toMatchObject({ ranMs: leaseDurationMs, waitedMs: 0, finishedAt: leaseDurationMs + 9_000 })
      }),
    ),

    check(
      "keeps each warning",
      Effect.gen(function* () {
        for (const [n, warningCode] of warningCodes.slice(0, 3).entries())
          expect(yield* complete(yield* createAndClaim(newJob(n)), { warningCode })).toMatchObject({ warningCode })
      }),
    ),

    check(
      "in one batch each job gets its own output, files, warning and charge",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* create(newLiveJob(1), newLiveJob(2), newJob(3))
        const { claims } = yield* claim({ limit: 3 })
        const results = claims.map((claimed) => {
          const n = Number(claimed.job.id.slice("job_".length))
          const of = {
            output: { text: `output ${n}` },
            files: [{ ...outputFile(claimed, n), name: `file ${n}`, bytes: 1_000 * n }],
            warningCode: warningCodes[n - 1] ?? null,
            charge: claimed.job.mode === "live" ? chargeOf(n) : null,
          }
          return { claimed, of }
        })
        // Not in the order in which they were accepted.
        const batch = [...results].reverse().map(({ claimed, of }) => completionOf(claimed, of))
        expect(yield* store.completeJobs(batch)).toEqual(["Written", "Written", "Written"])
        expect(results).toHaveLength(3)
        for (const { claimed, of } of results) {
          expect(yield* read(claimed.job)).toMatchObject({ status: "done", ...of })
          for (const file of of.files)
            expect(yield* findFile(file.id)).toMatchObject({ ...file, jobId: claimed.job.id })
        }
      }),
    ),

    check(
      "charges a live job once, with it",
      Effect.gen(function* () {
        yield* openAudioGate
        const claimed = yield* createAndClaim(newLiveJob(1))
        expect(claimed.job.charge).toBe(null)
        yield* advance(1_500)
        expect(yield* complete(claimed)).toMatchObject({ charge, ranMs: 1_500 })
      }),
    ),

    check(
      "a live job without a charge is a defect, and so is a sandbox job with one; nothing is written",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        const sandbox = yield* createAndClaim(newJob(1))
        const live = yield* createAndClaim(newLiveJob(2))
        for (const [claimed, wrong] of [
          [sandbox, charge],
          [live, null],
        ] as const) {
          const exit = yield* Effect.exit(
            store.completeJobs([completionOf(claimed, { charge: wrong, files: [outputFile(claimed, 1)] })]),
          )
          expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
          expect(yield* read(claimed.job)).toEqual(claimed.job)
          expect(yield* findFile(fileId(1))).toBe(undefined)
          expect((yield* complete(claimed)).status).toBe("done")
        }
      }),
    ),

    check(
      "done is final: no lease, sweep or later time changes it",
      Effect.gen(function* () {
        const store = yield* JobStore
        const done = yield* complete(yield* createAndClaim())
        yield* advance(2 * queueLimitMs)
        expect(yield* store.expireJobs(10)).toEqual([])
        expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
        expect(yield* read(done)).toEqual(done)
      }),
    ),
  ],
}

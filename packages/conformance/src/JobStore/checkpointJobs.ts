import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Json } from "@kiln/core/domain"
import { progressCheckpoint, progressStep } from "@kiln/core/rules"
import { type Claim, JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, complete, create, createAndClaim, now, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { jobId, leaseDurationMs, newJob, ownerOf } from "../fixtures.ts"

export const checkpointJobs: Section = {
  name: "JobStore.checkpointJobs",
  checks: [
    check(
      "the progress that an attempt checkpoints is what a poll shows, until the next attempt or the end of the job",
      Effect.gen(function* () {
        const store = yield* JobStore
        const report = (claimed: Claim, progress: Parameters<typeof progressCheckpoint>[0]) => {
          const { job, token } = claimed
          const value = progressCheckpoint(progress, job.attempts)
          return store.checkpointJobs([{ jobId: job.id, token, step: progressStep, value }])
        }
        const polled = Effect.gen(function* () {
          yield* read(newJob(1))
          const [job] = yield* store.pollJobs([{ jobId: newJob(1).id, principal: ownerOf(newJob(1)) }])
          return job?.progress
        })
        const first = yield* createAndClaim()
        expect(yield* polled).toBe(null)
        yield* report(first, { value: 0.25, message: "é😀" })
        yield* report(first, { value: 0.5, message: null })
        expect(yield* polled).toEqual({ value: 0.5, message: null })
        yield* store.deferJobs([{ jobId: first.job.id, token: first.token, delayMs: 0, countsAsFailure: true }])
        expect(yield* polled).toEqual({ value: 0.5, message: null })
        const second = yield* claimOne()
        expect(yield* report(first, { value: 0.9, message: "stale" })).toEqual(["LeaseLost"])
        expect(yield* polled).toBe(null)
        yield* report(second, { value: 0.1, message: "again" })
        expect(yield* polled).toEqual({ value: 0.1, message: "again" })
        yield* complete(second)
        expect(yield* polled).toBe(null)
      }),
    ),

    check(
      "keeps finished steps for the next attempt: after a release, a deferral, a lost worker",
      Effect.gen(function* () {
        const store = yield* JobStore
        const values: Record<string, Json> = {
          transcribe: { text: "a\u2028é😀" },
          reply: ["x", 1, null],
          speak: "s",
          constructor: 0.1,
        }
        yield* create(newJob(1))
        let expected: Record<string, Json> = {}
        for (const [step, value] of Object.entries(values)) {
          const { job, token } = yield* claimOne()
          expect(job.checkpoints).toEqual(expected)
          expect(yield* store.checkpointJobs([{ jobId: jobId(1), token, step, value }])).toEqual(["Written"])
          expected = { ...expected, [step]: value }
          const after = yield* read(newJob(1))
          expect(after.checkpoints).toEqual(expected)
          expectMoved(job, { event: "checkpointed", token }, yield* now, after)
          if (step === "transcribe") yield* store.releaseJobs([{ jobId: jobId(1), token }])
          else if (step === "reply")
            yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 0, countsAsFailure: true }])
          else yield* advance(leaseDurationMs)
        }
        expect((yield* claimOne()).job.checkpoints).toEqual(values)
      }),
    ),

    check(
      "a step may be kept again, and several in one batch",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { token } = yield* createAndClaim()
        const item = { jobId: jobId(1), token }
        yield* store.checkpointJobs([
          { ...item, step: "a", value: 1 },
          { ...item, step: "b", value: 2 },
          { ...item, step: "a", value: 3 },
        ])
        expect((yield* read(newJob(1))).checkpoints).toEqual({ a: 3, b: 2 })
      }),
    ),

    check(
      "a done job has none; a failed one keeps them until its data is erased",
      Effect.gen(function* () {
        const store = yield* JobStore
        const limits = { queueLimitMs: 100_000, runLimitMs: 100_000 }
        yield* create(newJob(1), newJob(2), newJob(3, { limits }), newJob(4))
        const { claims } = yield* claim({ limit: 4 })
        yield* store.checkpointJobs(
          claims.map(({ job, token }) => ({ jobId: job.id, token, step: "a", value: "secret" })),
        )
        const [one, two] = claims
        if (one === undefined || two === undefined) throw new Error("expected claims")
        yield* complete(one)
        yield* store.failJobs([{ jobId: two.job.id, token: two.token, errorCode: "provider_rejected" }])
        yield* advance(leaseDurationMs)
        expect((yield* claim({ maxLostWorkers: 1 })).abandoned).toHaveLength(2)
        expect((yield* read(newJob(1))).checkpoints).toEqual({})
        for (const n of [2, 3, 4]) expect((yield* read(newJob(n))).checkpoints).toEqual({ a: "secret" })
        yield* store.eraseJobs([{ jobId: jobId(2), principal: ownerOf(newJob(2)) }])
        expect((yield* read(newJob(2))).checkpoints).toEqual({})
        const five = yield* createAndClaim(newJob(5, { limits }))
        yield* store.checkpointJobs([{ jobId: jobId(5), token: five.token, step: "a", value: "secret" }])
        yield* advance(200_000)
        expect(yield* store.expireJobs(10)).toEqual([])
        expect((yield* read(newJob(5))).checkpoints, "kept when the job returns to the queue").toEqual({ a: "secret" })
        yield* advance(100_000)
        expect(yield* store.expireJobs(10)).toHaveLength(1)
        expect((yield* read(newJob(5))).checkpoints).toEqual({ a: "secret" })
        yield* advance(1)
        expect((yield* store.expireData(0, 10)).count).toBe(4)
        for (const n of [1, 2, 3, 4, 5]) expect((yield* read(newJob(n))).checkpoints).toEqual({})
      }),
    ),
  ],
}

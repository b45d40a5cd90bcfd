import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { errorMessageOf } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import { advance, claim, create, createAndClaim, createFailed, openAudioGate, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { newJob, newLiveJob, ownerOf } from "../fixtures.ts"

export const failJobs: Section = {
  name: "JobStore.failJobs",
  checks: [
    check(
      "fails permanently with its code; the request stays until erased",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { job, token } = yield* createAndClaim()
        yield* advance(20)
        expect(yield* store.failJobs([{ jobId: job.id, token, errorCode: "audio_too_long" }])).toEqual(["Written"])
        const failed = yield* read(job)
        expectMoved(job, { event: "failed", token, errorCode: "audio_too_long" }, 20, failed)
        expect(failed).toMatchObject({
          errorCode: "audio_too_long",
          retained: "kept",
          request: newJob(1).request,
          output: null,
          charge: null,
          failures: 0,
        })
      }),
    ),

    check(
      "keeps what the job tells its caller until its data is erased",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { job, token } = yield* createAndClaim()
        const message = `Page ${"9".repeat(2_000)}\u0000`
        const failure = { jobId: job.id, token, errorCode: "content_rejected", message } as const
        expect(yield* store.failJobs([failure])).toEqual(["Written"])
        const failed = yield* read(job)
        expect(failed.output).toEqual({ message: message.slice(0, 1_000) })
        expect(errorMessageOf(failed)).toBe(message.slice(0, 1_000))
        const [polled] = yield* store.pollJobs([{ jobId: job.id, principal: ownerOf(job) }])
        expect(polled && errorMessageOf(polled)).toBe(message.slice(0, 1_000))
        // A repeat writes nothing.
        expect(yield* store.failJobs([{ ...failure, message: "another" }])).toEqual(["Written"])
        expect((yield* read(job)).output).toEqual(failed.output)
        yield* store.eraseJobs([{ jobId: job.id, principal: ownerOf(job) }])
        const erased = yield* read(job)
        expect(erased).toMatchObject({ errorCode: "content_rejected", output: null })
        expect(errorMessageOf(erased)).toBe(null)
      }),
    ),

    check(
      "in one batch each job fails with its own code",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2))
        const { claims } = yield* claim({ limit: 2 })
        const items = claims.map(({ job, token }) => ({
          jobId: job.id,
          token,
          errorCode: job.id === newJob(1).id ? ("content_rejected" as const) : ("provider_unavailable" as const),
        }))
        expect(yield* store.failJobs(items.toReversed())).toEqual(["Written", "Written"])
        expect((yield* read(newJob(1))).errorCode).toBe("content_rejected")
        expect((yield* read(newJob(2))).errorCode).toBe("provider_unavailable")
      }),
    ),

    check(
      "a live job that failed is not charged",
      Effect.gen(function* () {
        yield* openAudioGate
        expect(yield* createFailed(newLiveJob(1))).toMatchObject({ mode: "live", charge: null })
      }),
    ),
  ],
}

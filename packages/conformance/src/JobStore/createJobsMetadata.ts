import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import {
  advance,
  claimOne,
  claimRequest,
  create,
  createAndClaim,
  createDone,
  createFailed,
  exists,
  first,
  read,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { newJob, ownerOf } from "../fixtures.ts"

const metadata = { model: "small", "a key with spaces": [1, 2.5, null, { deep: "é😀" }], flag: true }

/** Fields of the request that are not the caller's data. */
export const metadataSection: Section = {
  name: "JobStore.createJobs: metadata",
  checks: [
    check(
      "are read as they were written, apart from the request",
      Effect.gen(function* () {
        const job = first(yield* create(newJob(1, { metadata, request: { input: "text" } })))
        expect(job).toMatchObject({ metadata, request: { input: "text" } })
        expect((yield* read(newJob(1))).metadata).toEqual(metadata)
        expect(first(yield* create(newJob(2))).metadata).toEqual({})
      }),
    ),

    check(
      "come with every claim: an attempt finds the trace of its request in them",
      Effect.gen(function* () {
        const traced = { "kiln:traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" }
        const { job, token } = yield* createAndClaim(newJob(1, { metadata: traced }))
        expect(job.metadata).toEqual(traced)
        const store = yield* JobStore
        yield* store.deferJobs([{ jobId: job.id, token, delayMs: 0, countsAsFailure: true }])
        expect((yield* claimOne()).job.metadata).toEqual(traced)
        const asked = [newJob(2, { metadata: traced })]
        const { claimed } = yield* store.createAndClaimJobs(asked, { ...claimRequest, limit: 1 })
        const other = claimed?.claims[0] ?? (yield* claimOne())
        expect(other.job).toMatchObject({ id: asked[0]?.id, metadata: traced })
      }),
    ),

    check(
      "stay when the owner erases the job's data, and when it expires",
      Effect.gen(function* () {
        const store = yield* JobStore
        const one = yield* createDone(newJob(1, { metadata }))
        yield* store.eraseJobs([{ jobId: one.id, principal: ownerOf(one) }])
        expect(yield* read(one)).toMatchObject({ retained: "deleted", request: null, metadata })
        const two = yield* createFailed(newJob(2, { metadata }))
        yield* advance(100)
        expect((yield* store.expireData(100, 10)).count).toBe(1)
        expect(yield* read(two)).toMatchObject({ retained: "expired", request: null, metadata })
        yield* store.eraseJobs([{ jobId: two.id, principal: ownerOf(two) }])
        expect(yield* read(two)).toMatchObject({ retained: "deleted", metadata })
      }),
    ),

    check(
      "are removed with the record",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = yield* createDone(newJob(1, { metadata }))
        expect((yield* store.deleteJobs(0, 10)).count).toBe(1)
        expect(yield* exists(job)).toBe(false)
        expect(first(yield* create(newJob(1, { metadata: {} }))).metadata, "nothing of them comes back").toEqual({})
      }),
    ),
  ],
}

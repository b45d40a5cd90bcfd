import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Json } from "@kiln/core/domain"
import { type Claim, JobStore } from "@kiln/core/ports"
import { advance, claimOne, complete, createAndClaim, createDone } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, leaseDurationMs, newJob, ownerOf } from "../fixtures.ts"

const append = Effect.fnUntraced(function* ({ job, token }: Claim, first: number, ...values: ReadonlyArray<Json>) {
  const item = { jobId: job.id, token, attempt: job.attempts, first, values }
  const [outcome] = yield* (yield* JobStore).appendChunks([item])
  return outcome
})

const page = Effect.fnUntraced(function* (from = 0, limit = 100, n = 1) {
  const [read] = yield* (yield* JobStore).readChunks([{ jobId: jobId(n), from, limit }])
  return read
})

const values = Effect.map(page(), (read) => read?.chunks.map(({ value }) => value))
const total = Effect.flatMap(JobStore, (store) => store.countChunks(jobId(1)))

/** Chunks that attempts emit. */
export const appendChunks: Section = {
  name: "JobStore.appendChunks",
  checks: [
    check(
      "chunks are read in their order, by index and in pages, and stay when the job is done",
      Effect.gen(function* () {
        const claimed = yield* createAndClaim()
        expect(yield* page()).toEqual({ chunks: [], isFinished: false })
        expect(yield* append(claimed, 0, "é😀", { a: [null, 1.5] })).toBe("Written")
        expect(yield* append(claimed, 2, "\u0000\u2028", "d")).toBe("Written")
        expect(yield* page(1, 2)).toEqual({
          chunks: [
            { index: 1, attempt: 1, value: { a: [null, 1.5] } },
            { index: 2, attempt: 1, value: "\u0000\u2028" },
          ],
          isFinished: false,
        })
        expect(yield* page(4)).toEqual({ chunks: [], isFinished: false })
        yield* complete(claimed)
        expect(yield* page(3)).toEqual({ chunks: [{ index: 3, attempt: 1, value: "d" }], isFinished: true })
        expect(yield* page(9)).toEqual({ chunks: [], isFinished: true })
        expect(yield* page(0, 0)).toEqual({ chunks: [], isFinished: true })
      }),
    ),

    check(
      "more than ten chunks are in the order of their numbers, each job with its own",
      Effect.gen(function* () {
        const store = yield* JobStore
        const [one, two] = [yield* createAndClaim(newJob(1)), yield* createAndClaim(newJob(2))]
        const many = Array.from({ length: 12 }, (_, index) => index)
        yield* store.appendChunks([
          { jobId: two.job.id, token: two.token, attempt: 1, first: 0, values: ["other"] },
          { jobId: one.job.id, token: one.token, attempt: 1, first: 0, values: many },
        ])
        expect(yield* values).toEqual(many)
        expect(
          yield* store.readChunks([
            { jobId: jobId(2), from: 0, limit: 5 },
            { jobId: jobId(77), from: 0, limit: 5 },
            { jobId: jobId(1), from: 10, limit: 1 },
            { jobId: jobId(1), from: 11, limit: 5 },
          ]),
        ).toMatchObject([
          { chunks: [{ index: 0, value: "other" }] },
          undefined,
          { chunks: [{ index: 10, value: 10 }] },
          { chunks: [{ index: 11, value: 11 }] },
        ])
      }),
    ),

    check(
      "a repeat changes nothing, and one that says more adds what is new",
      Effect.gen(function* () {
        const claimed = yield* createAndClaim()
        expect(yield* append(claimed, 0, "a", "b")).toBe("Written")
        expect(yield* append(claimed, 0, "a", "b")).toBe("Written")
        expect(yield* append(claimed, 1, "b", "c")).toBe("Written")
        expect(yield* append(claimed, 3)).toBe("Written")
        expect(yield* values).toEqual(["a", "b", "c"])
      }),
    ),

    check(
      "a claim that lost its job writes nothing; the next attempt goes on after the last chunk",
      Effect.gen(function* () {
        const first = yield* createAndClaim()
        yield* append(first, 0, "a")
        yield* advance(leaseDurationMs)
        const second = yield* claimOne()
        expect(yield* append(first, 1, "late")).toBe("LeaseLost")
        expect(yield* total).toEqual({ count: 1, bytes: 3 })
        expect(yield* append(second, 1, "b")).toBe("Written")
        expect((yield* page())?.chunks).toEqual([
          { index: 0, attempt: 1, value: "a" },
          { index: 1, attempt: 2, value: "b" },
        ])
        yield* complete(second)
        expect(yield* append(second, 2, "later")).toBe("LeaseLost")
        expect(yield* values).toEqual(["a", "b"])
      }),
    ),

    check(
      "chunks are counted in bytes of UTF-8",
      Effect.gen(function* () {
        expect(yield* total).toEqual({ count: 0, bytes: 0 })
        yield* append(yield* createAndClaim(), 0, "é😀", 12)
        expect(yield* total).toEqual({ count: 2, bytes: 10 })
      }),
    ),

    check(
      "chunks go with the job's data: erased, expired, or with its record",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claims = [
          yield* createAndClaim(newJob(1)),
          yield* createAndClaim(newJob(2)),
          yield* createAndClaim(newJob(3)),
        ]
        for (const claimed of claims) {
          yield* append(claimed, 0, "a")
          yield* complete(claimed)
        }
        yield* store.eraseJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])
        expect(yield* page(0, 9, 1)).toEqual({ chunks: [], isFinished: true })
        expect((yield* page(0, 9, 2))?.chunks).toHaveLength(1)
        yield* advance(10)
        yield* store.expireData(10, 1)
        expect(yield* page(0, 9, 2)).toEqual({ chunks: [], isFinished: true })
        expect((yield* page(0, 9, 3))?.chunks).toHaveLength(1)
        yield* store.deleteJobs(10, 9)
        expect(yield* page(0, 9, 3)).toBe(undefined)
        expect(yield* store.countChunks(jobId(3))).toEqual({ count: 0, bytes: 0 })
        yield* createDone(newJob(4))
        expect(yield* page(0, 9, 4)).toEqual({ chunks: [], isFinished: true })
      }),
    ),
  ],
}

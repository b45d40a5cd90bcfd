import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import { advance, claimOne, complete, create, createAndClaim, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, leaseDurationMs, newJob } from "../fixtures.ts"

const checking = Effect.fnUntraced(function* (...claims: ReadonlyArray<readonly [number, number]>) {
  const store = yield* JobStore
  return yield* store.checkClaims(claims.map(([n, token]) => ({ jobId: jobId(n), token })))
})

/** Checks about claims that still hold their jobs, or no longer. */
export const checkClaims: Section = {
  name: "JobStore.checkClaims",
  checks: [
    check(
      "true for a claim with its own token, in order, and nothing changes",
      Effect.gen(function* () {
        const { token } = yield* createAndClaim(newJob(1))
        yield* create(newJob(2))
        const before = yield* read(newJob(1))
        expect(yield* checking([1, token], [2, 0], [2, 1], [9, 1], [1, token - 1], [1, token + 1], [1, token])).toEqual(
          [true, false, false, false, false, false, true],
        )
        expect(yield* checking()).toEqual([])
        expect(yield* read(newJob(1))).toEqual(before)
      }),
    ),

    check(
      "a claim whose lease has ended holds until another worker takes over",
      Effect.gen(function* () {
        const zombie = yield* createAndClaim(newJob(1))
        yield* advance(leaseDurationMs + 5)
        expect(yield* checking([1, zombie.token])).toEqual([true])
        const { token } = yield* claimOne()
        expect(yield* checking([1, zombie.token], [1, token])).toEqual([false, true])
      }),
    ),

    check(
      "false once the claim has ended, for any reason",
      Effect.gen(function* () {
        const store = yield* JobStore
        const released = yield* createAndClaim(newJob(1))
        yield* store.releaseJobs([{ jobId: jobId(1), token: released.token }])
        expect(yield* checking([1, released.token], [1, released.token + 1])).toEqual([false, false])
        const again = yield* claimOne()
        yield* store.deferJobs([{ jobId: jobId(1), token: again.token, delayMs: 60_000, countsAsFailure: false }])
        expect(yield* checking([1, again.token])).toEqual([false])
        const done = yield* createAndClaim(newJob(2))
        yield* complete(done)
        const failed = yield* createAndClaim(newJob(3))
        yield* store.failJobs([{ jobId: jobId(3), token: failed.token, errorCode: "internal_error" }])
        const canceled = yield* createAndClaim(newJob(4))
        yield* store.cancelJobs([jobId(4)])
        const overdue = yield* createAndClaim(newJob(5, { limits: { queueLimitMs: 1, runLimitMs: 10 } }))
        yield* advance(10)
        expect(yield* store.expireJobs(10)).toEqual([jobId(5)])
        expect(yield* checking([2, done.token], [3, failed.token], [4, canceled.token], [5, overdue.token])).toEqual([
          false,
          false,
          false,
          false,
        ])
      }),
    ),
  ],
}

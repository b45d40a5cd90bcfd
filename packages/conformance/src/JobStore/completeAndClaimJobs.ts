import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ClaimRequest, type Completion, JobStore } from "@kiln/core/ports"
import { advance, claim, claimedNumbers, claimRequest, create, first, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { completionOf, leaseDurationMs, newJob, projectId } from "../fixtures.ts"

/** Completes jobs and claims. A store that completed without claiming is asked for the claim. */
const completeThenClaim = Effect.fnUntraced(function* (
  items: ReadonlyArray<Completion>,
  request: Partial<ClaimRequest> = {},
) {
  const store = yield* JobStore
  const { claimed, completed } = yield* store.completeAndClaimJobs(items, { ...claimRequest, ...request })
  return { completed, claimed: claimed ?? (yield* claim(request)) }
})

/** Completions and a claim in one transaction, which must have the results of one after the other. */
export const completeAndClaimJobs: Section = {
  name: "JobStore.completeAndClaimJobs",
  checks: [
    check(
      "ends the jobs and hands out the next, under leases and tokens",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2))
        const one = first((yield* claim({ limit: 1 })).claims)
        const { claimed, completed } = yield* completeThenClaim([completionOf(one)], { limit: 1 })
        expect(completed).toEqual(["Written"])
        expect(claimedNumbers(claimed)).toEqual([2])
        expect(first(claimed.claims)).toMatchObject({ token: 1, leaseRemainingMs: leaseDurationMs })
        expect(yield* read(newJob(1))).toMatchObject({ status: "done", output: { text: "done" } })
        expect(yield* read(newJob(2))).toEqual(first(claimed.claims).job)
      }),
    ),

    check(
      "a completed job no longer counts towards a limit when the claim is made",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2), newJob(3, { projectId: projectId(2) }))
        const limits = { perKind: {}, perProject: 1 }
        const one = first((yield* claim({ limit: 1, limits })).claims)
        const { claimed } = yield* completeThenClaim([completionOf(one)], { limits })
        expect(claimedNumbers(claimed)).toEqual([3, 2])
      }),
    ),

    check(
      "completes what is held and refuses the rest, and claims in either case",
      Effect.gen(function* () {
        yield* create(newJob(1))
        const zombie = first((yield* claim()).claims)
        yield* advance(leaseDurationMs)
        const { claims } = yield* claim()
        yield* create(newJob(2), newJob(3))
        const { claimed, completed } = yield* completeThenClaim([completionOf(zombie), completionOf(first(claims))])
        expect(completed).toEqual(["LeaseLost", "Written"])
        expect(claimedNumbers(claimed)).toEqual([2, 3])
      }),
    ),

    check(
      "a repeat is recognized and claims nothing again",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2))
        const one = first((yield* claim({ limit: 1 })).claims)
        yield* completeThenClaim([completionOf(one)])
        const { claimed, completed } = yield* completeThenClaim([completionOf(one)])
        expect(completed).toEqual(["Written"])
        expect(claimed).toMatchObject({ claims: [], nextInMs: leaseDurationMs })
      }),
    ),

    check(
      "claims only what the request allows",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2), newJob(3))
        const { claims } = yield* claim({ limit: 2 })
        expect((yield* completeThenClaim([completionOf(first(claims))], { limit: 0 })).claimed.claims).toEqual([])
        expect((yield* completeThenClaim([], { runnable: [] })).claimed.claims).toEqual([])
        expect(yield* store.completeJobs(claims.map((one) => completionOf(one)))).toEqual(["Written", "Written"])
      }),
    ),
  ],
}

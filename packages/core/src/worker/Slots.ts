import { Deferred, Effect } from "effect"
import { JobKinds } from "../kinds/JobKinds.ts"
import type { Claim } from "../ports/index.ts"
import { type HeldLease, holdLease } from "./HeldLease.ts"
import { runAttempt } from "./RunAttempt.ts"

/** The jobs a worker has in hand. */
export const makeSlots = Effect.gen(function* () {
  const kinds = new Map((yield* JobKinds).map((kind) => [kind.name, kind]))
  const leases = new Set<HeldLease>()
  let nextFreed = Deferred.makeUnsafe<void>()

  return {
    /** One for each job in hand. */
    leases,
    /** Completes when the next job leaves its slot. */
    freed: Effect.suspend(() => Deferred.await(nextFreed)),
    /** Runs one claim in a slot. `askedAtNanos` is when the claim was asked for, monotonic. */
    attempt: (claim: Claim, askedAtNanos: bigint) =>
      Effect.suspend(() => {
        const kind = kinds.get(claim.job.kind)
        if (kind === undefined) return Effect.die(new Error(`claimed a job of the unknown kind ${claim.job.kind}`))
        const lease = holdLease({ jobId: claim.job.id, token: claim.token }, askedAtNanos, claim.leaseRemainingMs)
        leases.add(lease)
        return Effect.ensuring(
          runAttempt(kind, claim, lease),
          Effect.sync(() => {
            leases.delete(lease)
            const freed = nextFreed
            nextFreed = Deferred.makeUnsafe<void>()
            Deferred.doneUnsafe(freed, Effect.void)
          }),
        )
      }),
  }
})

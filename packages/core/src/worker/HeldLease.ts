import { Clock, Deferred, Effect } from "effect"
import { LeaseLost } from "../kinds/JobKind.ts"
import type { ClaimRef } from "../ports/index.ts"

const nanosPerMs = 1_000_000n

/** Milliseconds before the lease's end at which a worker stops by itself: its clock and the store's do not tick as one. */
const safetyMarginMs = 100

/**
 * The worker's side of a lease: until when, on its own monotonic clock, it may act. Counted from
 * before the store was asked, so it always ends before the store's.
 */
export interface HeldLease extends ClaimRef {
  /** Sets a new end, `leaseRemainingMs` after `askedAtNanos`. */
  readonly renew: (askedAtNanos: bigint, leaseRemainingMs: number) => void
  /** The run limit ends this lease: the job has no time left, and giving it back would only have it started again. */
  readonly isLast: () => boolean
  /** The store says that the claim is gone. */
  readonly lose: Effect.Effect<void>
  /** Fails once the claim is lost, or its time is up. Never succeeds. */
  readonly lost: Effect.Effect<never, LeaseLost>
}

export const holdLease = (
  claim: ClaimRef,
  askedAtNanos: bigint,
  leaseRemainingMs: number,
  leaseDurationMs: number,
): HeldLease => {
  const gone = Deferred.makeUnsafe<never, LeaseLost>()
  let endsAtNanos = 0n
  let last = false
  const renew = (asked: bigint, remainingMs: number) => {
    // A store may round to its own ticks: a lease that was cut short is short by more than one.
    last = remainingMs < leaseDurationMs - 1
    const usableMs = Math.max(remainingMs - safetyMarginMs, remainingMs / 2)
    endsAtNanos = asked + BigInt(Math.floor(usableMs)) * nanosPerMs
  }
  renew(askedAtNanos, leaseRemainingMs)
  const watch: Effect.Effect<never, LeaseLost> = Effect.gen(function* () {
    while (true) {
      const leftMs = Number((endsAtNanos - (yield* Clock.monotonicTimeNanos)) / nanosPerMs)
      if (leftMs <= 0) return yield* new LeaseLost()
      yield* Effect.sleep(leftMs)
    }
  })
  return {
    jobId: claim.jobId,
    token: claim.token,
    renew,
    isLast: () => last,
    lose: Effect.asVoid(Deferred.fail(gone, new LeaseLost())),
    lost: Effect.raceFirst(watch, Deferred.await(gone)),
  }
}

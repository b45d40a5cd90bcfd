import { Clock, Deferred, Effect } from "effect"
import { LeaseLost } from "../kinds/AttemptContext.ts"
import type { ClaimRef } from "../ports/index.ts"

const nanosPerMs = 1_000_000n

/** Milliseconds before the lease's end at which a worker stops by itself: its clock and the store's do not tick as one. */
const safetyMarginMs = 100

/**
 * The worker's side of a lease: until when, on its own monotonic clock, it may act. Counted from
 * before the store was asked, so it always ends before the store's.
 */
export interface HeldLease extends ClaimRef {
  /** Sets the end to `leaseRemainingMs` after `askedAtNanos`, unless a question asked later has been answered before. */
  readonly renew: (askedAtNanos: bigint, leaseRemainingMs: number) => void
  /** Fails if the claim is lost or its time is up already. Asked before anything is bought: a worker that stood still learns of it here first. */
  readonly check: Effect.Effect<void, LeaseLost>
  /** The run limit ends this lease: the job has no time left, and giving it back would only have it started again. */
  readonly isLast: () => boolean
  /** The store says that the claim is gone. */
  readonly lose: () => void
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
  let latestAskedNanos = askedAtNanos
  let last = false
  let isLost = false
  const renew = (asked: bigint, remainingMs: number) => {
    if (asked < latestAskedNanos) return
    latestAskedNanos = asked
    const usableMs = Math.max(remainingMs - safetyMarginMs, remainingMs / 2)
    endsAtNanos = asked + BigInt(Math.floor(usableMs)) * nanosPerMs
    // A store may round to its own ticks: a lease that was cut short is short by more than one.
    last = remainingMs < leaseDurationMs - 1
  }
  renew(askedAtNanos, leaseRemainingMs)
  /** Milliseconds, above 0. */
  const timeLeft = Effect.flatMap(Clock.monotonicTimeNanos, (now) => {
    const leftMs = Number((endsAtNanos - now) / nanosPerMs)
    return leftMs > 0 ? Effect.succeed(leftMs) : Effect.fail(new LeaseLost())
  })
  // Looks again once a heartbeat, since a store whose clock was put forward may take back some of what it granted.
  const watch: Effect.Effect<never, LeaseLost> = Effect.forever(
    Effect.flatMap(timeLeft, (leftMs) => Effect.sleep(Math.min(leftMs, leaseDurationMs / 3))),
  )
  return {
    jobId: claim.jobId,
    token: claim.token,
    renew,
    check: Effect.suspend(() => (isLost ? Effect.fail(new LeaseLost()) : Effect.asVoid(timeLeft))),
    isLast: () => last,
    lose: () => {
      isLost = true
      Deferred.doneUnsafe(gone, Effect.fail(new LeaseLost()))
    },
    lost: Effect.raceFirst(watch, Deferred.await(gone)),
  }
}

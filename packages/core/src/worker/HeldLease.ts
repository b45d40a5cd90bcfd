import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
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
  /**
   * Milliseconds for which this process stood still while the lease ran out, if that is why it did; else 0. To be asked when
   * the time is up.
   */
  readonly stoodStillMs: Effect.Effect<number>
}

/** How often, per lease, a process looks whether it still runs. */
const pulsesPerLease = 20

/**
 * Notes when a process could not run: a pulse that is late by more than half its pause. Whatever held it up, code that
 * blocks the event loop, a signal that stops the process, a machine that sleeps: nothing could extend a lease meanwhile.
 */
const makePulse = (pulseMs: number, startedAtNanos: bigint) => {
  const pulseNanos = BigInt(Math.ceil(pulseMs)) * nanosPerMs
  // From the start: the first thing an attempt does may be to block.
  let dueNanos: bigint | undefined = startedAtNanos + pulseNanos
  let stalls: ReadonlyArray<{ readonly from: bigint; readonly to: bigint }> = []
  const look = (now: bigint) => {
    if (dueNanos !== undefined && 2n * (now - dueNanos) > pulseNanos) stalls = [...stalls, { from: dueNanos, to: now }]
    dueNanos = undefined
  }
  return {
    /** Sleeps for a pulse, or for less. */
    sleep: (ms: number): Effect.Effect<void> =>
      Effect.flatMap(Clock.monotonicTimeNanos, (now) => {
        look(now)
        const forMs = Math.min(ms, pulseMs)
        dueNanos = now + BigInt(Math.ceil(forMs)) * nanosPerMs
        return Effect.sleep(forMs)
      }),
    forgetBefore: (nanos: bigint): void => {
      stalls = stalls.filter(({ to }) => to > nanos)
    },
    /** Nanoseconds. */
    stoodStillSince: (nanos: bigint, now: bigint): bigint => {
      look(now)
      return stalls.reduce((sum, { from, to }) => sum + (to - (from > nanos ? from : nanos)), 0n)
    },
  }
}

export const holdLease = (
  claim: ClaimRef,
  askedAtNanos: bigint,
  leaseRemainingMs: number,
  leaseDurationMs: number,
  nowNanos: bigint,
): HeldLease => {
  const pulse = makePulse(leaseDurationMs / pulsesPerLease, nowNanos)
  const gone = Deferred.makeUnsafe<never, LeaseLost>()
  let endsAtNanos = 0n
  let latestAskedNanos = askedAtNanos
  let last = false
  let isLost = false
  const renew = (asked: bigint, remainingMs: number) => {
    if (asked < latestAskedNanos) return
    latestAskedNanos = asked
    pulse.forgetBefore(asked)
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
  // Looks again and again, since a store whose clock was put forward may take back some of what it granted.
  const watch: Effect.Effect<never, LeaseLost> = Effect.forever(Effect.flatMap(timeLeft, pulse.sleep))
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
    // Heartbeats come every third of a lease: where the process could run for half of the time, it is the store that did not
    // answer. A claim that the store says is gone was counted there, or canceled.
    stoodStillMs: Effect.map(Clock.monotonicTimeNanos, (now) => {
      const stoodStill = pulse.stoodStillSince(latestAskedNanos, now)
      return !isLost && 2n * stoodStill >= now - latestAskedNanos ? Number(stoodStill / nanosPerMs) : 0
    }),
  }
}

import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type { HeldLease } from "./HeldLease.ts"

/** How often, per lease, the watch looks whether the process still runs. */
const pulsesPerLease = 20

/** A time for which the process could not run, in milliseconds of the monotonic clock. */
interface Stall {
  readonly from: number
  readonly to: number
}

/**
 * Ends leases whose time is up: one fiber for all leases of a worker, which sleeps until the first of them may end. While
 * there are leases it looks at least every pulse, for two reasons. A store whose clock was put forward may shorten a lease.
 * And a look that comes late by more than half a pulse shows that the process stood still: code that blocks the event loop, a
 * signal that stops the process, a machine that sleeps. Nothing could extend a lease meanwhile.
 */
export class LeaseWatch {
  readonly leases = new Set<HeldLease>()
  readonly #clock: Clock.Clock
  readonly #pulseMs: number
  readonly #rearmed = Latch.makeUnsafe(false)
  /** When the next look is due; `Infinity` while there are no leases. */
  #dueMs = Infinity
  #stalls: ReadonlyArray<Stall> = []

  constructor(clock: Clock.Clock, leaseDurationMs: number) {
    this.#clock = clock
    this.#pulseMs = leaseDurationMs / pulsesPerLease
  }

  /** Milliseconds of the monotonic clock. */
  now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  add(lease: HeldLease): void {
    this.leases.add(lease)
    const now = this.now()
    const due = Math.min(lease.endsAtMs, now + this.#pulseMs)
    if (due >= this.#dueMs) return
    // The look is due from now on, before the fiber wakes: the first thing an attempt does may be to block.
    this.#dueMs = due
    this.#rearmed.openUnsafe()
  }

  delete(lease: HeldLease): void {
    this.leases.delete(lease)
  }

  /** Watches until interrupted. */
  readonly run: Effect.Effect<never> = Effect.ensuring(
    // Without a yield: the next timer is set before an attempt that was added can block.
    Effect.forever(
      Effect.suspend(() => this.#look()),
      { disableYield: true },
    ),
    Effect.sync(() => {
      this.#dueMs = Infinity
    }),
  )

  #look(): Effect.Effect<void> {
    const now = this.now()
    this.#noteStall(now)
    this.#rearmed.closeUnsafe()
    let due = Infinity
    let firstAskedMs = now
    for (const lease of this.leases) {
      // Also of a lost one: its attempt is yet to ask why it ran out.
      firstAskedMs = Math.min(firstAskedMs, lease.askedAtMs)
      if (lease.holdsAt(now)) due = Math.min(due, lease.endsAtMs, now + this.#pulseMs)
    }
    this.#dueMs = due
    this.#stalls = this.#stalls.filter(({ to }) => to > firstAskedMs)
    const rearmed = this.#rearmed.await
    return due === Infinity ? rearmed : Effect.raceFirst(Effect.sleep(due - now), rearmed)
  }

  #noteStall(now: number): void {
    if (2 * (now - this.#dueMs) <= this.#pulseMs) return
    this.#stalls = [...this.#stalls, { from: this.#dueMs, to: now }]
    this.#dueMs = now
  }

  /**
   * Returns the milliseconds for which the process stood still while this lease ran out, if that is why it did; else 0. To be
   * called when its time is up. Heartbeats come every third of a lease: if the process could run for half of the time, the
   * store did not answer.
   */
  stoodStillMs(lease: HeldLease): number {
    if (lease.isRefused) return 0
    const now = this.now()
    this.#noteStall(now)
    const since = lease.askedAtMs
    const stoodStill = this.#stalls.reduce((sum, { from, to }) => sum + Math.max(0, to - Math.max(from, since)), 0)
    return 2 * stoodStill >= now - since ? stoodStill : 0
  }
}

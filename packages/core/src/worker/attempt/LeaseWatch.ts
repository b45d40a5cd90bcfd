import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { Bag } from "../Bag.ts"
import type { HeldLease } from "./HeldLease.ts"

/** Number of checks per lease that the process has not been frozen. */
const checksPerLease = 20

/** A period in which the process was frozen, in milliseconds of the monotonic clock. */
interface Stall {
  readonly from: number
  readonly to: number
}

/**
 * Ends leases whose time is up, with one fiber for all leases of a worker, which sleeps until the first of them may end. While
 * there are leases, it also checks them twenty times per lease, for two reasons. A store whose clock jumped forward may shorten
 * a lease. And a check that is late by more than half its interval shows that the process was frozen: code blocked the event
 * loop, a signal stopped the process, or the machine slept. Nothing could extend a lease meanwhile.
 */
export class LeaseWatch {
  readonly leases = new Bag<HeldLease>()
  readonly #clock: Clock.Clock
  readonly #checkMs: number
  readonly #rearmed = Latch.makeUnsafe(false)
  /** The time of the next check; `Infinity` while there are no leases. */
  #dueMs = Infinity
  #stalls: ReadonlyArray<Stall> = []

  constructor(clock: Clock.Clock, leaseDurationMs: number) {
    this.#clock = clock
    this.#checkMs = leaseDurationMs / checksPerLease
  }

  /** Milliseconds of the monotonic clock. */
  now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  add(lease: HeldLease): void {
    this.leases.add(lease)
    // While a check is due, it is due within its interval from now, so only a lease that ends before it needs an earlier one.
    if (lease.endsAtMs >= this.#dueMs) return
    const due = Math.min(lease.endsAtMs, this.now() + this.#checkMs)
    // Set before the fiber wakes, because an attempt may block the event loop immediately.
    this.#dueMs = due
    this.#rearmed.openUnsafe()
  }

  delete(lease: HeldLease): void {
    this.leases.delete(lease)
  }

  /** Watches until interrupted. */
  readonly run: Effect.Effect<never> = Effect.ensuring(
    // Without a yield, so that the next timer is set before an attempt that was added can block the event loop.
    Effect.forever(
      Effect.suspend(() => this.#check()),
      { disableYield: true },
    ),
    Effect.sync(() => {
      this.#dueMs = Infinity
    }),
  )

  #check(): Effect.Effect<void> {
    const now = this.now()
    this.#noteStall(now)
    this.#rearmed.closeUnsafe()
    let due = Infinity
    let firstAskedMs = now
    for (const lease of this.leases) {
      // Lost leases count too, because their attempts have not asked yet why they ended.
      firstAskedMs = Math.min(firstAskedMs, lease.askedAtMs)
      if (lease.holdsAt(now)) due = Math.min(due, lease.endsAtMs, now + this.#checkMs)
    }
    this.#dueMs = due
    this.#stalls = this.#stalls.filter(({ to }) => to > firstAskedMs)
    const rearmed = this.#rearmed.await
    return due === Infinity ? rearmed : Effect.raceFirst(Effect.sleep(due - now), rearmed)
  }

  #noteStall(now: number): void {
    if (2 * (now - this.#dueMs) <= this.#checkMs) return
    this.#stalls = [...this.#stalls, { from: this.#dueMs, to: now }]
    this.#dueMs = now
  }

  /**
   * Returns for how many milliseconds the process was frozen during this lease if that is why the lease ended; otherwise 0. Call
   * it when the lease has ended. Heartbeats are sent every third of a lease, so if the process could run for half of the time,
   * the store did not answer.
   */
  frozenMs(lease: HeldLease): number {
    if (lease.isRefused) return 0
    const now = this.now()
    this.#noteStall(now)
    const since = lease.askedAtMs
    const frozen = this.#stalls.reduce((sum, { from, to }) => sum + Math.max(0, to - Math.max(from, since)), 0)
    return 2 * frozen >= now - since ? frozen : 0
  }
}

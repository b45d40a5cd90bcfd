import type { ClaimRef } from "../../ports/index.ts"
import { nowhere, type Placed } from "../Bag.ts"

/** Milliseconds before the end of a lease at which the worker stops, because its clock and the store's may drift apart. */
const safetyMarginMs = 100

/**
 * The worker's side of a lease: the time on its own monotonic clock until which it may act. It is counted from before the call
 * to the store, so it always ends before the store's lease. All times are milliseconds of the monotonic clock.
 */
export class HeldLease implements ClaimRef, Placed {
  readonly jobId: ClaimRef["jobId"]
  readonly token: number
  readonly #durationMs: number
  #endsAtMs = 0
  #askedAtMs: number
  place = nowhere
  #isLast = false
  #state: "held" | "expired" | "refused" = "held"
  #whenLost: Array<() => void> | undefined

  constructor({ jobId, token }: ClaimRef, askedAtMs: number, remainingMs: number, durationMs: number) {
    this.jobId = jobId
    this.token = token
    this.#durationMs = durationMs
    this.#askedAtMs = askedAtMs
    this.renew(askedAtMs, remainingMs)
  }

  /** The time at which the worker must stop. */
  get endsAtMs(): number {
    return this.#endsAtMs
  }

  /** The start of the call whose answer set the end. */
  get askedAtMs(): number {
    return this.#askedAtMs
  }

  /** The run limit ends this lease: the job has no time left, and releasing it would only start it again. */
  get isLast(): boolean {
    return this.#isLast
  }

  /** Whether the worker must no longer act on the claim. */
  get isLost(): boolean {
    return this.#state !== "held"
  }

  /** Whether the store reported that the claim has ended: another worker took the job over, or it was canceled. */
  get isRefused(): boolean {
    return this.#state === "refused"
  }

  /** Sets the end to `remainingMs` after `askedAtMs`, unless the answer to a later call has already set it. */
  renew(askedAtMs: number, remainingMs: number): void {
    if (askedAtMs < this.#askedAtMs) return
    this.#askedAtMs = askedAtMs
    const usableMs = Math.max(remainingMs - safetyMarginMs, remainingMs / 2)
    this.#endsAtMs = askedAtMs + Math.floor(usableMs)
    // Stores may round to milliseconds, so only a lease that is shorter by more than one was cut by the run limit.
    this.#isLast = remainingMs < this.#durationMs - 1
  }

  /** Returns whether the worker may still act at this time. The lease is lost once it may not. */
  holdsAt(nowMs: number): boolean {
    if (this.#state === "held" && this.#endsAtMs - nowMs < 1) this.#become("expired")
    return this.#state === "held"
  }

  /** Ends the lease because the store reported that the claim has ended. */
  lose(): void {
    if (this.#state === "held") this.#become("refused")
  }

  /** Calls the function when the lease is lost, or immediately if it already is. Each of several functions is called, in order. */
  whenLost(call: () => void): void {
    if (this.isLost) return call()
    ;(this.#whenLost ??= []).push(call)
  }

  #become(state: "expired" | "refused"): void {
    this.#state = state
    const calls = this.#whenLost
    this.#whenLost = undefined
    if (calls !== undefined) for (const call of calls) call()
  }
}

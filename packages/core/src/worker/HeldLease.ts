import type { ClaimRef } from "../ports/index.ts"

/** Milliseconds before the lease's end at which a worker stops by itself: its clock and the store's may run apart. */
const safetyMarginMs = 100

/**
 * The worker's side of a lease: the time on its own monotonic clock until which it may act. Counted from before the store was
 * asked, so it always ends before the store's. All times are milliseconds of the monotonic clock.
 */
export class HeldLease implements ClaimRef {
  readonly jobId: ClaimRef["jobId"]
  readonly token: number
  readonly #durationMs: number
  #endsAtMs = 0
  #askedAtMs: number
  #isLast = false
  #state: "held" | "expired" | "refused" = "held"
  #whenLost: (() => void) | undefined

  constructor({ jobId, token }: ClaimRef, askedAtMs: number, remainingMs: number, durationMs: number) {
    this.jobId = jobId
    this.token = token
    this.#durationMs = durationMs
    this.#askedAtMs = askedAtMs
    this.renew(askedAtMs, remainingMs)
  }

  /** When the worker must stop by itself. */
  get endsAtMs(): number {
    return this.#endsAtMs
  }

  /** When the question was asked whose answer set the end. */
  get askedAtMs(): number {
    return this.#askedAtMs
  }

  /** The run limit ends this lease: the job has no time left, and releasing it would only start it again. */
  get isLast(): boolean {
    return this.#isLast
  }

  /** Whether the worker must not act on the claim any more. */
  get isLost(): boolean {
    return this.#state !== "held"
  }

  /** Whether the store said that the claim is gone: it was counted there, or canceled. */
  get isRefused(): boolean {
    return this.#state === "refused"
  }

  /** Sets the end to `remainingMs` after `askedAtMs`, unless the answer to a later question has set it. */
  renew(askedAtMs: number, remainingMs: number): void {
    if (askedAtMs < this.#askedAtMs) return
    this.#askedAtMs = askedAtMs
    const usableMs = Math.max(remainingMs - safetyMarginMs, remainingMs / 2)
    this.#endsAtMs = askedAtMs + Math.floor(usableMs)
    // A store may round to its own ticks: a lease that was cut short is short by more than one.
    this.#isLast = remainingMs < this.#durationMs - 1
  }

  /** Returns whether the worker may still act at this time. The lease is lost once it may not. */
  holdsAt(nowMs: number): boolean {
    if (this.#state === "held" && this.#endsAtMs - nowMs < 1) this.#become("expired")
    return this.#state === "held"
  }

  /** Ends the lease because the store says that the claim is gone. */
  lose(): void {
    if (this.#state === "held") this.#become("refused")
  }

  /** Calls the function when the lease is lost, or at once if it is. Replaces the function given before. */
  whenLost(call: () => void): void {
    if (this.isLost) return call()
    this.#whenLost = call
  }

  #become(state: "expired" | "refused"): void {
    this.#state = state
    const call = this.#whenLost
    this.#whenLost = undefined
    call?.()
  }
}

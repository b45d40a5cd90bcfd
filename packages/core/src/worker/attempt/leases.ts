import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { monotonicMs } from "../../domain/monotonicMs.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { type ClaimRef, JobStore } from "../../ports/index.ts"

/** A member of a `Bag`. Only the bag writes its place. */
export interface Placed {
  place: number
}

/** The place of an object that is not in its bag. */
export const nowhere = -1

/**
 * A set of objects, each in at most one bag, without an order. A `Set` replaces its table every few hundred changes, and each old table
 * refers to the next one. Once one of them is old to the garbage collector, it keeps all members of all later tables alive until
 * the next collection of the whole heap. Former members of a bag are not kept.
 */
export class Bag<Member extends Placed> implements Iterable<Member> {
  readonly #members: Array<Member> = []

  get size(): number {
    return this.#members.length
  }

  /** Adds an object that is in no bag. */
  add(member: Member): void {
    member.place = this.#members.length
    this.#members.push(member)
  }

  /** Returns false if the object is not in the bag. */
  delete(member: Member): boolean {
    const { place } = member
    const last = this.#members.at(-1)
    if (place === nowhere || last === undefined) return false
    this.#members[place] = last
    last.place = place
    this.#members.length -= 1
    member.place = nowhere
    return true
  }

  /** The members that the bag has now: it may change while they are looked at. */
  [Symbol.iterator](): Iterator<Member> {
    return this.#members.slice().values()
  }
}

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
  #isEnding = false
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

  /** Ends the lease because the store reported that the claim has ended, unless the attempt is ending it. */
  lose(): void {
    if (this.#state === "held" && !this.#isEnding) this.#become("refused")
  }

  /**
   * The end of the attempt is written from now on. A claim that a heartbeat or a check no longer finds may have been ended by it, before its
   * answer arrived, so that answer decides. Only time still ends the lease.
   */
  beginEnd(): void {
    this.#isEnding = true
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

/**
 * The time for which the answer to a written end is still awaited when the lease has ended meanwhile, in milliseconds. After a freeze of the
 * process it is already there, but the timers come first.
 */
const lateAnswerMs = 5_000

/** Calls `late` once the lease is lost and an answer that has not come will no longer be awaited. */
export const afterLoss = (lease: HeldLease, context: Context.Context<never>, late: () => void): void =>
  lease.whenLost(() => {
    Effect.runForkWith(context)(Effect.sleep(lateAnswerMs)).addObserver(late)
  })

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

/**
 * Extends all leases of a worker in one call, every third of a lease. If the store refuses to extend a lease, the lease is lost
 * and its attempt ends. While the store is unavailable, nothing is extended, and each attempt ends by the worker's own clock
 * before its lease does.
 *
 * A heartbeat does not wait for the previous one, because a slow answer would delay the leases of jobs claimed since.
 */
export const heartbeat: (leases: Bag<HeldLease>) => Effect.Effect<never, never, JobStore> = Effect.fnUntraced(
  function* (leases) {
    const { leaseDurationMs } = yield* EngineConfig
    while (true) {
      yield* Effect.sleep(leaseDurationMs / 3)
      // After any failure, the next heartbeat must still follow; otherwise all jobs would be lost.
      const beating = Effect.catchCause(beat([...leases], leaseDurationMs), (cause) =>
        Effect.logWarning("heartbeat failed", cause),
      )
      // An answer that takes longer than a lease can only extend leases that have already ended.
      yield* Effect.forkChild(Effect.timeoutOption(beating, leaseDurationMs))
    }
  },
)

const beat = Effect.fnUntraced(function* (held: ReadonlyArray<HeldLease>, leaseDurationMs: number) {
  const store = yield* JobStore
  const askedAtMs = yield* monotonicMs
  // A lease that ended stays lost, even if this process was frozen and no other worker has taken the job over yet.
  const leases = held.filter((lease) => lease.holdsAt(askedAtMs))
  if (leases.length === 0) return
  const outcomes = yield* store.extendLeases(leases.map(({ jobId, token }) => ({ jobId, token, leaseDurationMs })))
  for (const [index, lease] of leases.entries()) {
    const outcome = outcomes[index]
    if (outcome?._tag === "Extended") lease.renew(askedAtMs, outcome.leaseRemainingMs)
    else lease.lose()
  }
})

/** The part of `claimCheckIntervalMs` between two checks. The rest is for the answers of the store, so that the interval holds for both. */
const pausePart = 0.8

/**
 * Checks regularly whether the claims of this worker still hold, so that a canceled job stops soon in any process. Heartbeats
 * check too, but only every third of a lease. If the store does not answer, all claims are assumed to hold.
 */
export const checkClaims: (leases: Bag<HeldLease>) => Effect.Effect<never, never, JobStore> = Effect.fnUntraced(
  function* (leases) {
    const { claimCheckIntervalMs } = yield* EngineConfig
    const store = yield* JobStore
    while (true) {
      yield* Effect.sleep(pausePart * claimCheckIntervalMs)
      const asked = [...leases]
      if (asked.length === 0) continue
      const holds = yield* store.checkClaims(asked.map(({ jobId, token }) => ({ jobId, token }))).pipe(
        Effect.timeoutOption(claimCheckIntervalMs),
        Effect.map((answer) => (answer._tag === "Some" ? answer.value : [])),
        Effect.catchCause(() => Effect.succeed([])),
      )
      for (const [index, lease] of asked.entries()) if (holds[index] === false) lease.lose()
    }
  },
)

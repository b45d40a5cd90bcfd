import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable, TakenPortion } from "../domain/index.ts"
import { policyOfRate } from "../domain/Rate.ts"
import { type RateLimitPolicy, TOKEN } from "../domain/RateLimit.ts"
import type { RateLimitStore } from "../ports/index.ts"
import { type CallRate, ProviderPostponed } from "../providers/index.ts"
import { answerLimitMs, idleMs, longestPauseMs, portionMs, usableMs, waitInSlotMs } from "./rateTimes.ts"
import { Reservations } from "./Reservations.ts"
import type { SharedRateOptions } from "./SharedRateOptions.ts"

/**
 * A rate that all processes share. This process takes tokens from the store's bucket in portions, so that most calls write nothing.
 *
 * Before jobs are claimed, `room` says for how many there are tokens. A process that used up its last portion, or got less than it
 * wanted, takes the next one before it claims; one without demand claims first, because its jobs can wait for a portion for a moment.
 * While the bucket is known to be empty, there is no room, and the store is not asked.
 *
 * A claimed job reserves a token until it takes one, or for a while (`Reservations`). If jobs do much other work first, no tokens are
 * taken ahead of their calls, because held tokens keep the bucket from refilling.
 */
export class SharedRate implements CallRate<StoreUnavailable> {
  readonly #bucket: string
  readonly #store: RateLimitStore["Service"]
  readonly #process: string
  readonly #scope: Scope.Scope
  readonly #policy: RateLimitPolicy
  readonly #portion: number
  readonly #clock: Clock.Clock
  readonly #onChange: () => void
  readonly #onWait: (change: 1 | -1) => void
  readonly #reservations: Reservations
  #tokens = 0
  #endsAt = 0
  #askAgainAt = 0
  /** The jobs that ask for a token, in the order in which they get one. */
  readonly #waiting = new Set<Deferred.Deferred<void>>()
  #inDemand = false
  /** Whether `room` has returned 0 for the last claim. */
  #isHeldBack = false
  /** Requests with an unknown outcome. */
  #failures = 0
  #asking: Deferred.Deferred<void, StoreUnavailable> | undefined
  #returning: Fiber.Fiber<unknown, unknown> | undefined

  private constructor(
    { bucket, onChange, onWait, process, rate, store }: SharedRateOptions,
    scope: Scope.Scope,
    clock: Clock.Clock,
  ) {
    this.#bucket = bucket
    this.#store = store
    this.#process = process
    this.#scope = scope
    this.#clock = clock
    this.#onChange = onChange
    this.#onWait = onWait
    this.#policy = policyOfRate(rate)
    this.#reservations = new Reservations(this.#policy)
    this.#portion = Math.ceil(this.#policy.burst / 4)
  }

  /** Unused tokens are returned when the scope closes. */
  static make(options: SharedRateOptions): Effect.Effect<SharedRate, never, Scope.Scope> {
    return Effect.gen(function* () {
      const rate = new SharedRate(options, yield* Effect.scope, yield* Clock.Clock)
      yield* Effect.addFinalizer(() => Effect.timeoutOption(rate.#giveBackAtEnd, answerLimitMs))
      return rate
    })
  }

  expect(job: object): void {
    this.#reservations.add(job, this.#now())
  }

  forget(job: object): void {
    if (this.#reservations.delete(job)) this.#changed()
  }

  startClaim(): void {
    this.#isHeldBack = false
  }

  readonly room = Effect.tap(
    Effect.suspend(() => this.#room()),
    (room) =>
      Effect.sync(() => {
        if (room === 0) this.#isHeldBack = true
      }),
  )

  readonly nextInMs = Effect.sync(() => {
    if (!this.#isHeldBack) return undefined
    const now = this.#now()
    if (this.#roomAt(now) > 0) return 0
    if (this.#isEmpty(now)) return Math.ceil(this.#askAgainAt - now)
    const tooMany = this.#reserved(now) - this.#wanted(now) + 1
    const at = this.#reservations.lapsedAt(tooMany, now)
    // Otherwise, jobs wait for their tokens.
    return at === undefined ? undefined : Math.ceil(at - now)
  })

  take(job: object): Effect.Effect<boolean, ProviderPostponed | StoreUnavailable> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        const turn = Deferred.makeUnsafe<void>()
        this.#waiting.add(turn)
        this.#reservations.ask(job, this.#now())
        return turn
      }),
      (turn) => this.#take(turn),
      (turn) =>
        Effect.sync(() => {
          this.#waiting.delete(turn)
          this.#changed()
        }),
    )
  }

  #now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  #held(now: number): number {
    return now < this.#endsAt ? this.#tokens : 0
  }

  /** Jobs for which tokens are kept. */
  #reserved(now: number): number {
    return this.#waiting.size + this.#reservations.count(now)
  }

  /** The number of further jobs to claim, as far as is known without the store. */
  #roomAt(now: number): number {
    return this.#isEmpty(now) ? 0 : Math.max(0, this.#wanted(now) - this.#reserved(now))
  }

  /** Whether the bucket is known to have no token, and no job may be claimed to wait for one. */
  #isEmpty(now: number): boolean {
    return this.#held(now) === 0 && now < this.#askAgainAt && this.#reservations.spare === 0
  }

  /** For how many jobs to keep tokens. */
  #wanted(now: number): number {
    return (this.#held(now) || this.#portion) + this.#reservations.spare
  }

  #changed(): void {
    if (this.#isHeldBack) this.#onChange()
  }

  #room() {
    return Effect.gen({ self: this }, function* () {
      const now = this.#now()
      const known = this.#roomAt(now)
      if (known === 0 || this.#held(now) > 0 || !this.#inDemand || this.#reservations.callLate) return known
      // A store that hangs must not keep the worker from claiming other jobs.
      yield* Effect.raceFirst(
        Effect.interruptible(Effect.ignore(this.#ask)),
        Effect.interruptible(Effect.sleep(answerLimitMs)),
      )
      return this.#held(this.#now()) > 0 ? this.#roomAt(this.#now()) : 0
    })
  }

  #take(turn: Deferred.Deferred<void>) {
    return Effect.gen({ self: this }, function* () {
      const beganAt = this.#now()
      const giveUpAt = beganAt + waitInSlotMs
      for (let waited = false; ; waited = true) {
        while (this.#waiting.has(turn) && this.#held(this.#now()) > 0) yield* this.#giveOne()
        const now = this.#now()
        if (!this.#waiting.has(turn)) {
          this.#reservations.waited(now - beganAt)
          return waited
        }
        // The time to ask again is not known until a request in progress is answered.
        if (this.#asking !== undefined || now >= this.#askAgainAt) yield* this.#ask
        else if (this.#askAgainAt > giveUpAt) {
          this.#reservations.gaveUp()
          return yield* new ProviderPostponed({ delayMs: Math.ceil(this.#askAgainAt - now) })
        } else yield* this.#waitFor(turn, Math.ceil(this.#askAgainAt - now))
      }
    })
  }

  /** Gives a token to the job that has waited longest. */
  #giveOne(): Effect.Effect<void> {
    for (const first of this.#waiting) {
      this.#waiting.delete(first)
      this.#tokens -= 1
      Deferred.doneUnsafe(first, Effect.void)
      return this.#tokens === 0 ? this.#usedUp() : Effect.void
    }
    return Effect.void
  }

  #waitFor(turn: Deferred.Deferred<void>, ms: number): Effect.Effect<void> {
    return Effect.acquireUseRelease(
      Effect.sync(() => this.#onWait(1)),
      () => Effect.raceFirst(Effect.sleep(ms), Deferred.await(turn)),
      () => Effect.sync(() => this.#onWait(-1)),
    )
  }

  /** Asks for the next portion. It arrives even if the job that needed it is gone. */
  readonly #ask: Effect.Effect<void, StoreUnavailable> = Effect.suspend(() =>
    this.#oneAtATime(Effect.suspend(() => this.#takePortion())),
  )

  /** Requests of one process must not overtake each other: each ends the portion that the process has. */
  #oneAtATime(request: Effect.Effect<void, StoreUnavailable>): Effect.Effect<void, StoreUnavailable> {
    if (this.#asking !== undefined) return Deferred.await(this.#asking)
    const answered = Deferred.makeUnsafe<void, StoreUnavailable>()
    this.#asking = answered
    const settled = Effect.onExit(request, (exit) =>
      Effect.sync(() => {
        // It may still reach the store. A new name keeps it from ending a later portion.
        if (Exit.isFailure(exit)) this.#failures += 1
        this.#asking = undefined
        Deferred.doneUnsafe(answered, Exit.asVoid(exit))
      }),
    )
    return Effect.andThen(Effect.forkIn(settled, this.#scope, { startImmediately: true }), Deferred.await(answered))
  }

  #request(unused: number, wanted: number) {
    const process = `${this.#process} ${this.#failures}`
    const request = { bucket: this.#bucket, policy: this.#policy, process, unused, wanted, ttlMs: portionMs }
    return Effect.map(this.#store.takePortions([request]), ([taken]) => taken ?? { tokens: 0, level: 0 })
  }

  #takePortion() {
    return Effect.gen({ self: this }, function* () {
      const sentAt = this.#now()
      const unused = this.#tokens
      const needed = Math.max(this.#portion, this.#reserved(sentAt))
      const wanted = this.#inDemand ? Math.max(needed, 2 * this.#portion) : needed
      this.#tokens = 0
      this.#returning?.interruptUnsafe()
      this.#askAgainAt = sentAt + longestPauseMs
      const taken = yield* this.#request(unused, wanted)
      this.#tokens = taken.tokens
      this.#endsAt = sentAt + usableMs
      const isShort = taken.tokens < needed
      if (isShort) this.#inDemand = true
      this.#askAgainAt = isShort ? this.#now() + this.#pauseMs(taken) : 0
      if (taken.tokens > 0) yield* this.#endIn(idleMs)
      this.#changed()
    })
  }

  /** The pause after a portion that was smaller than wanted: until there are enough tokens for one, or some after a second. */
  #pauseMs({ level }: TakenPortion): number {
    const { perMinute } = this.#policy
    const untilMs = (tokens: number) => Math.ceil((tokens * TOKEN - level) / perMinute)
    return Math.max(1, untilMs(1), Math.min(longestPauseMs, untilMs(this.#portion)))
  }

  /** Ends the portion, so that other processes can use what is left of it, and the bucket refills to its whole burst. */
  readonly #end: Effect.Effect<void> = Effect.suspend(() => {
    if (this.#asking !== undefined) return Effect.void
    const unused = this.#tokens
    // Without demand, the next job is claimed before its token is asked for.
    if (unused > 0) this.#inDemand = false
    this.#tokens = 0
    return Effect.ignore(this.#oneAtATime(Effect.asVoid(this.#request(unused, 0))))
  })

  /** The same without a fiber of the scope, which is closing. A request in progress is then interrupted, and has the tokens. */
  readonly #giveBackAtEnd: Effect.Effect<void> = Effect.suspend(() => {
    const unused = this.#tokens
    this.#tokens = 0
    return unused === 0 ? Effect.void : Effect.ignore(this.#request(unused, 0))
  })

  /** Ends the portion after a while without a request. */
  #endIn(ms: number): Effect.Effect<void> {
    return Effect.map(Effect.forkIn(Effect.andThen(Effect.sleep(ms), this.#end), this.#scope), (fiber) => {
      this.#returning?.interruptUnsafe()
      this.#returning = fiber
    })
  }

  /** A portion that is used up keeps the bucket from refilling until it is ended, which the request before the next claim does. */
  #usedUp(): Effect.Effect<void> {
    this.#inDemand = true
    if (!this.#reservations.callLate) return Effect.void
    return this.#endIn(Math.min(idleMs, (this.#portion * TOKEN) / this.#policy.perMinute / 4))
  }
}

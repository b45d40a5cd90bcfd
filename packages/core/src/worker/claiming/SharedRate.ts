import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable } from "../../domain/index.ts"
import type { TakenPortion } from "../../domain/rules.ts"
import { policyOfRate, type Rate } from "../../domain/Rate.ts"
import { type RateLimitPolicy, TOKEN } from "../../domain/RateLimit.ts"
import { TokenPortion } from "../../engine/TokenPortion.ts"
import type { RateLimitStore } from "../../ports/index.ts"
import type { CallRate } from "../../providers/ProviderGuard.ts"
import { ProviderPostponed } from "../../providers/index.ts"
import { Reservations } from "./Reservations.ts"

// All times are in milliseconds.

/**
 * The time in which a portion may be used. The tokens of a process that was killed are missing for so long, and the bucket refills no further
 * than the rest of its burst.
 */
const portionMs = 5_000
/** A portion is used a little shorter than the store keeps it, because clocks differ in speed. */
const usableMs = 0.95 * portionMs
/** After how long without a request a portion is ended: used tokens then no longer hold up the bucket. */
const idleMs = 1_500
/** The longest wait for a token that keeps a slot. A job that would wait longer leaves its slot and is claimed again. */
const waitInSlotMs = 1_000
/** The longest pause between two requests to the store while the bucket has tokens, but fewer than wanted. */
const longestPauseMs = 1_000
/** The time that a claim waits for the store to hand out a portion, and that a stopping process waits to return one. */
const answerLimitMs = 1_000

/** The parts of a rate of the whole installation. */
export interface SharedRateOptions {
  readonly bucket: string
  readonly rate: Rate
  readonly store: RateLimitStore["Service"]
  /** Identifies this process among those that share the store. */
  readonly process: string
  /** Called when a running job changes when there is room again, after `room` has returned 0. */
  readonly onChange: () => void
  /** Called when a job begins (1) or ends (-1) to wait for a token. */
  readonly onWait: (change: 1 | -1) => void
}

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
  readonly #store: RateLimitStore["Service"]
  readonly #scope: Scope.Scope
  readonly #policy: RateLimitPolicy
  readonly #portion: TokenPortion
  /** Tokens of a usual portion. */
  readonly #usual: number
  readonly #now: () => number
  readonly #onChange: () => void
  readonly #onWait: (change: 1 | -1) => void
  readonly #reservations: Reservations
  #askAgainAt = 0
  /** The jobs that ask for a token, in the order in which they get one. */
  readonly #waiting = new Set<Deferred.Deferred<void>>()
  #inDemand = false
  /** Whether `room` has returned 0 for the last claim. */
  #isHeldBack = false
  #returning: Fiber.Fiber<unknown, unknown> | undefined

  private constructor(
    { bucket, onChange, onWait, process, rate, store }: SharedRateOptions,
    scope: Scope.Scope,
    clock: Clock.Clock,
  ) {
    this.#store = store
    this.#scope = scope
    this.#now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
    this.#portion = new TokenPortion({ store, process, scope, now: this.#now, ttlMs: portionMs, usableMs }, bucket)
    this.#onChange = onChange
    this.#onWait = onWait
    this.#policy = policyOfRate(rate)
    this.#reservations = new Reservations(this.#policy)
    this.#usual = Math.ceil(this.#policy.burst / 4)
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
    return this.#portion.held(now) === 0 && now < this.#askAgainAt && this.#reservations.spare === 0
  }

  /** For how many jobs to keep tokens. */
  #wanted(now: number): number {
    return (this.#portion.held(now) || this.#usual) + this.#reservations.spare
  }

  #changed(): void {
    if (this.#isHeldBack) this.#onChange()
  }

  #room() {
    return Effect.gen({ self: this }, function* () {
      const now = this.#now()
      const known = this.#roomAt(now)
      if (known === 0 || this.#portion.held(now) > 0 || !this.#inDemand || this.#reservations.callLate) return known
      // A store that hangs must not keep the worker from claiming other jobs.
      yield* Effect.raceFirst(
        Effect.interruptible(Effect.ignore(this.#ask)),
        Effect.interruptible(Effect.sleep(answerLimitMs)),
      )
      return this.#portion.held(this.#now()) > 0 ? this.#roomAt(this.#now()) : 0
    })
  }

  #take(turn: Deferred.Deferred<void>) {
    return Effect.gen({ self: this }, function* () {
      const beganAt = this.#now()
      const giveUpAt = beganAt + waitInSlotMs
      for (let waited = false; ; waited = true) {
        while (this.#waiting.has(turn) && this.#portion.held(this.#now()) > 0) yield* this.#giveOne()
        const now = this.#now()
        if (!this.#waiting.has(turn)) {
          this.#reservations.waited(now - beganAt)
          return waited
        }
        // The time to ask again is not known until a request in progress is answered.
        if (this.#portion.answer !== undefined || now >= this.#askAgainAt) yield* this.#ask
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
      this.#portion.use()
      Deferred.doneUnsafe(first, Effect.void)
      return this.#portion.tokens === 0 ? this.#usedUp() : Effect.void
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
  readonly #ask: Effect.Effect<void, StoreUnavailable> = Effect.suspend(
    () => this.#portion.answer ?? this.#takePortion(),
  )

  #takePortion(): Effect.Effect<void, StoreUnavailable> {
    const sentAt = this.#now()
    const needed = Math.max(this.#usual, this.#reserved(sentAt))
    const wanted = this.#inDemand ? Math.max(needed, 2 * this.#usual) : needed
    this.#returning?.interruptUnsafe()
    this.#askAgainAt = sentAt + longestPauseMs
    return this.#portion.exchange(this.#policy, wanted, (taken) =>
      Effect.gen({ self: this }, function* () {
        const isShort = taken.tokens < needed
        if (isShort) this.#inDemand = true
        this.#askAgainAt = isShort ? this.#now() + this.#pauseMs(taken) : 0
        if (taken.tokens > 0) yield* this.#endIn(idleMs)
        this.#changed()
      }),
    )
  }

  /** The pause after a portion that was smaller than wanted: until there are enough tokens for one, or some after a second. */
  #pauseMs({ level }: TakenPortion): number {
    const { perMinute } = this.#policy
    const untilMs = (tokens: number) => Math.ceil((tokens * TOKEN - level) / perMinute)
    return Math.max(1, untilMs(1), Math.min(longestPauseMs, untilMs(this.#usual)))
  }

  /** Ends the portion, so that other processes can use what is left of it, and the bucket refills to its whole burst. */
  readonly #end: Effect.Effect<void> = Effect.suspend(() => {
    if (this.#portion.answer !== undefined) return Effect.void
    // Without demand, the next job is claimed before its token is asked for.
    if (this.#portion.tokens > 0) this.#inDemand = false
    return Effect.ignore(this.#portion.exchange(this.#policy, 0, () => Effect.void))
  })

  /** The same without a fiber of the scope, which is closing. A request in progress is then interrupted, and has the tokens. */
  readonly #giveBackAtEnd: Effect.Effect<void> = Effect.suspend(() => {
    const rest = this.#portion.giveBack(this.#policy)
    return rest === undefined ? Effect.void : Effect.ignore(this.#store.takePortions([rest]))
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
    return this.#endIn(Math.min(idleMs, (this.#usual * TOKEN) / this.#policy.perMinute / 4))
  }
}

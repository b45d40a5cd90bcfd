import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable, TakenPortion } from "../domain/index.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"
import type { Rate } from "../domain/Rate.ts"
import { type RateLimitPolicy, TOKEN } from "../domain/RateLimit.ts"
import type { RateLimitStore } from "../ports/index.ts"
import { type CallRate, ProviderPostponed } from "../providers/index.ts"

/** How long a portion may be used. Unused tokens are returned before its end. */
const portionMs = 60_000
/** A portion is used a little shorter than the store keeps it, because clocks differ in speed. */
const usableMs = 0.95 * portionMs
/** The longest wait for a token that keeps a slot. A job that would wait longer leaves its slot and is claimed again. */
const waitInSlotMs = 1_000
/** The longest pause between two requests to the store while the bucket has tokens, but fewer than wanted. */
const longestPauseMs = 1_000
/** How long a claim waits for the store to hand out a portion. */
const answerLimitMs = 1_000
/** When to look again if running jobs are expected to use all tokens and have not done so. */
const expectedPauseMs = 1_000
const returnLimitMs = 1_000

/** Returns the token bucket of a rate. */
const policyOfRate = ({ limit, perMs, burst = Math.max(2, Math.ceil(limit / 10)) }: Rate): RateLimitPolicy => ({
  perMinute: (limit * 60_000) / perMs,
  burst,
})

/** The parts of a rate of the whole installation. */
export interface SharedRateOptions {
  readonly bucket: string
  readonly rate: Rate
  readonly store: RateLimitStore["Service"]
  /** Identifies this process among those that share the store. */
  readonly process: string
}

/**
 * A rate that all processes share. This process takes tokens from the store's bucket in portions, so that most calls write nothing.
 *
 * Before jobs are claimed, `room` says for how many there are tokens. A process that used up its last portion, or got less than it
 * wanted, takes the next one before it claims; one without demand claims first, because its jobs can wait for a portion for a moment.
 * While the bucket is known to be empty, there is no room, and the store is not asked.
 */
export class SharedRate implements CallRate<StoreUnavailable> {
  readonly #bucket: string
  readonly #store: RateLimitStore["Service"]
  readonly #process: string
  readonly #scope: Scope.Scope
  readonly #policy: RateLimitPolicy
  readonly #portion: number
  /** Running jobs that have not taken their token. */
  readonly #expected = new Set<object>()
  #tokens = 0
  #endsAt = 0
  #askAgainAt = 0
  #waiting = 0
  #inDemand = false
  /** Requests with an unknown outcome. */
  #failures = 0
  #asking: Deferred.Deferred<void, StoreUnavailable> | undefined
  #returning: Fiber.Fiber<unknown, unknown> | undefined

  private constructor({ bucket, process, rate, store }: SharedRateOptions, scope: Scope.Scope) {
    this.#bucket = bucket
    this.#store = store
    this.#process = process
    this.#scope = scope
    this.#policy = policyOfRate(rate)
    this.#portion = Math.ceil(this.#policy.burst / 4)
  }

  /** Unused tokens are returned when the scope closes. */
  static make(options: SharedRateOptions): Effect.Effect<SharedRate, never, Scope.Scope> {
    return Effect.gen(function* () {
      const rate = new SharedRate(options, yield* Effect.scope)
      yield* Effect.addFinalizer(() => Effect.timeoutOption(rate.#giveBackAtEnd, returnLimitMs))
      return rate
    })
  }

  expect(job: object): void {
    this.#expected.add(job)
  }

  forget(job: object): void {
    this.#expected.delete(job)
  }

  readonly room = Effect.suspend(() => this.#room())

  readonly nextInMs = Effect.map(monotonicMs, (now) => {
    const held = this.#held(now)
    if (held === 0 && now < this.#askAgainAt) return Math.ceil(this.#askAgainAt - now)
    const expected = this.#expected.size
    return expected > 0 && expected >= (held || this.#portion) ? expectedPauseMs : undefined
  })

  take(job: object): Effect.Effect<boolean, ProviderPostponed | StoreUnavailable> {
    return Effect.acquireUseRelease(
      Effect.sync(() => (this.#waiting += 1)),
      () => this.#take(job),
      () => Effect.sync(() => (this.#waiting -= 1)),
    )
  }

  #held(now: number): number {
    return now < this.#endsAt ? this.#tokens : 0
  }

  #room() {
    return Effect.gen({ self: this }, function* () {
      const now = yield* monotonicMs
      const expected = this.#expected.size
      if (this.#held(now) > 0) return Math.max(0, this.#held(now) - expected)
      if (now < this.#askAgainAt) return 0
      if (!this.#inDemand) return Math.max(0, this.#portion - expected)
      // A store that hangs must not keep the worker from claiming other jobs.
      yield* Effect.raceFirst(
        Effect.interruptible(Effect.ignore(this.#ask)),
        Effect.interruptible(Effect.sleep(answerLimitMs)),
      )
      return Math.max(0, this.#held(yield* monotonicMs) - this.#expected.size)
    })
  }

  #take(job: object) {
    return Effect.gen({ self: this }, function* () {
      const giveUpAt = (yield* monotonicMs) + waitInSlotMs
      for (let waited = false; ; waited = true) {
        const now = yield* monotonicMs
        if (this.#held(now) > 0) {
          this.#tokens -= 1
          if (this.#tokens === 0) this.#inDemand = true
          this.#expected.delete(job)
          return waited
        }
        if (now >= this.#askAgainAt) yield* this.#ask
        else if (this.#askAgainAt > giveUpAt)
          return yield* new ProviderPostponed({ delayMs: Math.ceil(this.#askAgainAt - now) })
        else yield* Effect.sleep(this.#askAgainAt - now)
      }
    })
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
      const sentAt = yield* monotonicMs
      const unused = this.#tokens
      const wanted = Math.max(this.#portion, this.#waiting, this.#expected.size)
      this.#tokens = 0
      this.#returning?.interruptUnsafe()
      this.#askAgainAt = sentAt + longestPauseMs
      const taken = yield* this.#request(unused, wanted)
      this.#tokens = taken.tokens
      this.#endsAt = sentAt + usableMs
      const isShort = taken.tokens < wanted
      if (isShort) this.#inDemand = true
      this.#askAgainAt = isShort ? (yield* monotonicMs) + this.#pauseMs(taken) : 0
      if (taken.tokens > 0) this.#returning = yield* Effect.forkIn(this.#giveBackLater, this.#scope)
    })
  }

  /** The pause after a portion that was smaller than wanted: until there is a token, and long enough for some. */
  #pauseMs({ level, tokens }: TakenPortion): number {
    const { perMinute } = this.#policy
    const untilToken = tokens === 0 ? Math.ceil((TOKEN - level) / perMinute) : 0
    return Math.max(1, untilToken, Math.min(longestPauseMs, Math.ceil((this.#portion * TOKEN) / perMinute)))
  }

  /** Returns unused tokens, so that other processes can use them. */
  readonly #giveBack: Effect.Effect<void> = Effect.suspend(() => {
    const unused = this.#tokens
    if (unused === 0 || this.#asking !== undefined) return Effect.void
    this.#tokens = 0
    return Effect.ignore(this.#oneAtATime(Effect.asVoid(this.#request(unused, 0))))
  })

  /** The same without a fiber of the scope, which is closing. A request in progress is then interrupted, and has the tokens. */
  readonly #giveBackAtEnd: Effect.Effect<void> = Effect.suspend(() => {
    const unused = this.#tokens
    this.#tokens = 0
    return unused === 0 ? Effect.void : Effect.ignore(this.#request(unused, 0))
  })

  readonly #giveBackLater = Effect.andThen(
    Effect.sleep(usableMs),
    Effect.suspend(() => {
      this.#inDemand = false
      return this.#giveBack
    }),
  )
}

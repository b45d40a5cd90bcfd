import type * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import { type KeyLimitName, type RateLimitPolicy, type StoreUnavailable, TOKEN } from "@kiln/core/domain"
import type { RateLimitStore } from "@kiln/core/ports"
import { type RateLimitDecision, RateLimiter, unlimited } from "../wire/RateLimiter.ts"

/** Decides about the requests of keys under one limit. */
export interface KeyLimiter {
  /** The decision, at once where it needs no store. */
  readonly take: (
    keyId: string,
    policy: RateLimitPolicy,
    clock: Clock.Clock,
  ) => RateLimitDecision | Effect.Effect<RateLimitDecision, StoreUnavailable>
}

const policyName = ({ burst, perMinute }: RateLimitPolicy): string => `${perMinute}/${burst}`

const isSame = (one: RateLimitPolicy, other: RateLimitPolicy): boolean =>
  one === other || (one.perMinute === other.perMinute && one.burst === other.burst)

/** A limiter that needs no store. */
interface LocalKeyLimiter extends KeyLimiter {
  readonly take: (keyId: string, policy: RateLimitPolicy, clock: Clock.Clock) => RateLimitDecision
}

/** Limits by buckets of this process alone. */
export const localKeyLimiter = (): LocalKeyLimiter => {
  const limiters = new Map<string, RateLimiter>()
  return {
    take: (keyId, policy, clock) => {
      const name = policyName(policy)
      const limiter = limiters.get(name) ?? new RateLimiter(policy)
      limiters.set(name, limiter)
      return limiter.take(keyId, clock.currentTimeMillisUnsafe())
    },
  }
}

/** The time in which a portion may be used. Longer portions cost fewer writes; shorter ones leave less with an idle process. */
const portionMs = 60_000
/** A portion is used a little shorter than the store keeps it, because clocks differ in speed. */
const usableMs = 0.98 * portionMs
/** Minimum time between two requests for tokens of an empty bucket. */
const emptyMs = 100
/** Maximum number of keys whose portions are remembered. */
const mostKeys = 50_000
/** Maximum number of portions that are returned at shutdown in one step. */
const mostReturned = 1_000
const returnLimitMs = 1_000

/** The knowledge of this process about the bucket of a key. Times are those of the monotonic clock. */
interface Held {
  policy: RateLimitPolicy
  /** The rest of the portion. */
  tokens: number
  /** The portion as it was taken. */
  taken: number
  /** The level of the store's bucket then, in 1/60,000 of a token. */
  level: number
  takenAt: number
  endsAt: number
  /** Until then, the bucket is known to be empty. */
  emptyUntil: number
  waiting: number
  asking: Deferred.Deferred<void, StoreUnavailable> | undefined
}

const monotonicMs = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/**
 * Limits by buckets that all processes share. This process takes tokens in portions ahead of need, so most requests need no store;
 * concurrent requests of a key wait for one portion together. Unused tokens go back when the scope closes.
 */
export class SharedKeyLimiter implements KeyLimiter {
  readonly #name: KeyLimitName
  readonly #store: RateLimitStore["Service"]
  readonly #process: string
  readonly #scope: Scope.Scope
  readonly #held = new Map<string, Held>()

  private constructor(name: KeyLimitName, store: RateLimitStore["Service"], process: string, scope: Scope.Scope) {
    this.#name = name
    this.#store = store
    this.#process = process
    this.#scope = scope
  }

  /** `process` identifies this process among those that share the store. */
  static make(
    name: KeyLimitName,
    store: RateLimitStore["Service"],
    process: string,
  ): Effect.Effect<SharedKeyLimiter, never, Scope.Scope> {
    return Effect.gen(function* () {
      const limiter = new SharedKeyLimiter(name, store, process, yield* Effect.scope)
      yield* Effect.addFinalizer(() => limiter.#returnAll)
      return limiter
    })
  }

  take(
    keyId: string,
    policy: RateLimitPolicy,
    clock: Clock.Clock,
  ): RateLimitDecision | Effect.Effect<RateLimitDecision, StoreUnavailable> {
    if (policy.perMinute === 0) return unlimited
    const held = this.#heldOf(keyId, policy, monotonicMs(clock))
    return decide(held, policy, monotonicMs(clock)) ?? this.#decideByStore(keyId, held, policy, clock)
  }

  #heldOf(keyId: string, policy: RateLimitPolicy, now: number): Held {
    const known = this.#held.get(keyId)
    if (known !== undefined) return known
    if (this.#held.size >= mostKeys) this.#forget(now)
    const held: Held = {
      policy,
      tokens: 0,
      taken: 0,
      level: 0,
      takenAt: now,
      endsAt: 0,
      emptyUntil: 0,
      waiting: 0,
      asking: undefined,
    }
    this.#held.set(keyId, held)
    return held
  }

  /** Forgets portions that have ended; otherwise the oldest key, whose portion then ends in the store. */
  #forget(now: number): void {
    for (const [keyId, { asking, emptyUntil, endsAt }] of this.#held)
      if (asking === undefined && now >= endsAt && now >= emptyUntil) this.#held.delete(keyId)
    const oldest = this.#held.size >= mostKeys ? this.#held.keys().next() : undefined
    if (oldest?.done === false) this.#held.delete(oldest.value)
  }

  #decideByStore(
    keyId: string,
    held: Held,
    policy: RateLimitPolicy,
    clock: Clock.Clock,
  ): Effect.Effect<RateLimitDecision, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      held.waiting += 1
      while (true) {
        const decision = decide(held, policy, monotonicMs(clock))
        if (decision !== undefined) return decision
        yield* Deferred.await(held.asking ?? (yield* this.#ask(keyId, held, policy, clock)))
      }
    }).pipe(Effect.ensuring(Effect.sync(() => (held.waiting -= 1))))
  }

  /** Asks for the next portion. It arrives even if the request that needed it is gone. */
  #ask(
    keyId: string,
    held: Held,
    policy: RateLimitPolicy,
    clock: Clock.Clock,
  ): Effect.Effect<Deferred.Deferred<void, StoreUnavailable>> {
    const answered = Deferred.makeUnsafe<void, StoreUnavailable>()
    held.asking = answered
    const sentAt = monotonicMs(clock)
    const unused = held.tokens
    const wanted = Math.max(Math.ceil(policy.burst / 4), held.waiting)
    held.tokens = 0
    const request = { bucket: this.#bucket(keyId), policy, process: this.#process, unused, wanted, ttlMs: portionMs }
    const asking = Effect.map(this.#store.takePortions([request]), ([taken]) => {
      if (taken === undefined) throw new TypeError("takePortions returned no portion")
      const { level, tokens } = taken
      const now = monotonicMs(clock)
      const waitMs = Math.ceil((TOKEN - level) / policy.perMinute)
      held.policy = policy
      held.tokens = tokens
      held.taken = tokens
      held.level = level
      held.takenAt = now
      held.endsAt = sentAt + usableMs
      held.emptyUntil = tokens === 0 ? now + Math.max(emptyMs, waitMs) : 0
    })
    const settled = Effect.onExit(asking, (exit) =>
      Effect.sync(() => {
        held.asking = undefined
        Deferred.doneUnsafe(answered, Exit.asVoid(exit))
      }),
    )
    return Effect.as(Effect.forkIn(settled, this.#scope, { startImmediately: true }), answered)
  }

  #bucket(keyId: string): string {
    return `${this.#name} ${keyId}`
  }

  get #returnAll(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const rest = [...this.#held]
        .filter(([, { tokens }]) => tokens > 0)
        .slice(0, mostReturned)
        .map(([keyId, { policy, tokens: unused }]) => ({
          bucket: this.#bucket(keyId),
          policy,
          process: this.#process,
          unused,
          wanted: 0,
          ttlMs: portionMs,
        }))
      this.#held.clear()
      if (rest.length === 0) return Effect.void
      return Effect.ignore(Effect.timeoutOption(this.#store.takePortions(rest), returnLimitMs))
    })
  }
}

/** Decides by what this process holds; `undefined` if it has to ask. */
const decide = (held: Held, policy: RateLimitPolicy, now: number): RateLimitDecision | undefined => {
  if (!isSame(held.policy, policy)) return undefined
  if (held.tokens > 0 && now < held.endsAt) {
    held.tokens -= 1
    return decision(held, now, true)
  }
  return now < held.emptyUntil ? decision(held, now, false) : undefined
}

/** The store refills a bucket no further than the burst without the portions that processes hold. */
const decision = (
  { emptyUntil, level, policy, taken, takenAt, tokens }: Held,
  now: number,
  allowed: boolean,
): RateLimitDecision => {
  const { burst, perMinute } = policy
  const elapsed = Math.floor(Math.max(0, now - takenAt))
  const refilled = Math.max(level, Math.min((burst - taken) * TOKEN, level + elapsed * perMinute))
  const left = refilled + tokens * TOKEN
  return {
    allowed,
    limit: perMinute,
    remaining: allowed ? Math.floor(left / TOKEN) : 0,
    resetSeconds: Math.ceil(Math.ceil((TOKEN - (left % TOKEN)) / perMinute) / 1000),
    retryAfterSeconds: allowed ? 0 : Math.max(1, Math.ceil((emptyUntil - now) / 1000)),
  }
}

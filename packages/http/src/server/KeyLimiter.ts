import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type RateLimitPolicy, type StoreUnavailable, TOKEN, type KeyLimits } from "@kiln/core/domain"
import { type PortionSource, TokenPortion } from "@kiln/core/effect"
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
  readonly portion: TokenPortion
  policy: RateLimitPolicy
  /** The portion as it was taken. */
  taken: number
  /** The level of the store's bucket then, in 1/60,000 of a token. */
  level: number
  takenAt: number
  /** Until then, the bucket is known to be empty. */
  emptyUntil: number
  waiting: number
}

const monotonicMs = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/**
 * Limits by buckets that all processes share. This process takes tokens in portions ahead of need, so most requests need no store;
 * concurrent requests of a key wait for one portion together. Unused tokens go back when the scope closes.
 */
export class SharedKeyLimiter implements KeyLimiter {
  readonly #name: keyof KeyLimits
  readonly #source: PortionSource
  readonly #held = new Map<string, Held>()

  private constructor(name: keyof KeyLimits, source: PortionSource) {
    this.#name = name
    this.#source = source
  }

  /** `process` identifies this process among those that share the store. */
  static make(
    name: keyof KeyLimits,
    store: RateLimitStore["Service"],
    process: string,
  ): Effect.Effect<SharedKeyLimiter, never, Scope.Scope> {
    return Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const scope = yield* Effect.scope
      const times = { now: () => monotonicMs(clock), ttlMs: portionMs, usableMs }
      const limiter = new SharedKeyLimiter(name, { store, process, scope, ...times })
      yield* Effect.addFinalizer(() => limiter.#returnAll)
      return limiter
    })
  }

  take(keyId: string, policy: RateLimitPolicy): RateLimitDecision | Effect.Effect<RateLimitDecision, StoreUnavailable> {
    if (policy.perMinute === 0) return unlimited
    const now = this.#source.now()
    const held = this.#heldOf(keyId, policy, now)
    return decide(held, policy, now) ?? this.#decideByStore(held, policy)
  }

  #heldOf(keyId: string, policy: RateLimitPolicy, now: number): Held {
    const known = this.#held.get(keyId)
    if (known !== undefined) return known
    if (this.#held.size >= mostKeys) this.#forget(now)
    const portion = new TokenPortion(this.#source, `${this.#name} ${keyId}`)
    const held: Held = { portion, policy, taken: 0, level: 0, takenAt: now, emptyUntil: 0, waiting: 0 }
    this.#held.set(keyId, held)
    return held
  }

  /** Forgets portions that have ended; otherwise the oldest key, whose portion then ends in the store. */
  #forget(now: number): void {
    for (const [keyId, { emptyUntil, portion }] of this.#held)
      if (portion.answer === undefined && now >= portion.endsAt && now >= emptyUntil) this.#held.delete(keyId)
    const oldest = this.#held.size >= mostKeys ? this.#held.keys().next() : undefined
    if (oldest?.done === false) this.#held.delete(oldest.value)
  }

  #decideByStore(held: Held, policy: RateLimitPolicy): Effect.Effect<RateLimitDecision, StoreUnavailable> {
    return Effect.gen({ self: this }, function* () {
      held.waiting += 1
      while (true) {
        const decision = decide(held, policy, this.#source.now())
        if (decision !== undefined) return decision
        yield* held.portion.answer ?? this.#ask(held, policy)
      }
    }).pipe(Effect.ensuring(Effect.sync(() => (held.waiting -= 1))))
  }

  #ask(held: Held, policy: RateLimitPolicy): Effect.Effect<void, StoreUnavailable> {
    const wanted = Math.max(Math.ceil(policy.burst / 4), held.waiting)
    return held.portion.exchange(policy, wanted, ({ level, tokens }) =>
      Effect.sync(() => {
        const now = this.#source.now()
        const waitMs = Math.ceil((TOKEN - level) / policy.perMinute)
        held.policy = policy
        held.taken = tokens
        held.level = level
        held.takenAt = now
        held.emptyUntil = tokens === 0 ? now + Math.max(emptyMs, waitMs) : 0
      }),
    )
  }

  get #returnAll(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const rest = [...this.#held.values()]
        .filter(({ portion }) => portion.tokens > 0)
        .slice(0, mostReturned)
        .flatMap(({ policy, portion }) => portion.giveBack(policy) ?? [])
      this.#held.clear()
      if (rest.length === 0) return Effect.void
      return Effect.ignore(Effect.timeoutOption(this.#source.store.takePortions(rest), returnLimitMs))
    })
  }
}

/** Decides by what this process holds; `undefined` if it has to ask. */
const decide = (held: Held, policy: RateLimitPolicy, now: number): RateLimitDecision | undefined => {
  if (!isSame(held.policy, policy)) return undefined
  if (held.portion.held(now) > 0) {
    held.portion.use()
    return decision(held, now, true)
  }
  return now < held.emptyUntil ? decision(held, now, false) : undefined
}

/** The store refills a bucket no further than the burst without the portions that processes hold. */
const decision = (
  { emptyUntil, level, policy, portion, taken, takenAt }: Held,
  now: number,
  allowed: boolean,
): RateLimitDecision => {
  const { burst, perMinute } = policy
  const elapsed = Math.floor(Math.max(0, now - takenAt))
  const refilled = Math.max(level, Math.min((burst - taken) * TOKEN, level + elapsed * perMinute))
  const left = refilled + portion.tokens * TOKEN
  return {
    allowed,
    limit: perMinute,
    remaining: allowed ? Math.floor(left / TOKEN) : 0,
    resetSeconds: Math.ceil(Math.ceil((TOKEN - (left % TOKEN)) / perMinute) / 1000),
    retryAfterSeconds: allowed ? 0 : Math.max(1, Math.ceil((emptyUntil - now) / 1000)),
  }
}

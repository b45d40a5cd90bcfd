import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import {
  authorize,
  type Grant,
  type KeyLimits,
  type Principal,
  type RateLimitPolicy,
  type StoreUnavailable,
  TOKEN,
} from "@kiln/core/domain"
import { type PortionSource, TokenPortion } from "@kiln/core/effect"
import type { RateLimitStore } from "@kiln/core/ports"
import { type RateLimitDecision, RateLimiter, type RateLimits, unlimited } from "../wire/RateLimiter.ts"
import { type Authenticate, believedForMs } from "./Authenticator.ts"
import { asStep, type Exchange, rateLimitHeaders, type Ready, Refusal } from "./Exchange.ts"

// A monotonic clock, because the ages of admissions and of portions decide what is asked again.
const monotonicMs = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/**
 * Verifies the key again after a slow body, before anything is accepted: the key may have been revoked in the meantime.
 */
export const makeConfirm =
  (authenticate: Authenticate) =>
  (exchange: Exchange, clock: Clock.Clock): Ready<object> =>
    monotonicMs(clock) - exchange.admittedAt < believedForMs / 2 ? stillValid : authenticate(exchange, clock)

const stillValid: object = {}

/** Checks key, scope and rate limit, in this order, for every request of the authenticated API. */
export const makeAdmit =
  (authenticate: Authenticate, limits: RateLimits, limiters: KeyLimiters) =>
  <S extends string>(exchange: Exchange, scope: S, limit: keyof KeyLimits, clock: Clock.Clock): Ready<Grant<S>> => {
    const judged = (grant: Grant<S>, decision: RateLimitDecision): Ready<Grant<S>> => {
      Object.assign(exchange.responseHeaders, rateLimitHeaders(limit, decision))
      if (decision.allowed) return grant
      return Effect.fail(
        new Refusal({ code: "rate_limited", headers: { "retry-after": String(decision.retryAfterSeconds) } }),
      )
    }
    const admitted = (principal: Principal): Ready<Grant<S>> => {
      const grant = authorize(principal, scope)
      if (grant === undefined) return Effect.fail(insufficientScope(scope))
      exchange.admittedAt = monotonicMs(clock)
      exchange.keyId = grant.keyId
      exchange.projectId = grant.projectId
      const policy = exchange.keyLimits[limit] ?? limits[limit]
      const decision = limiters[limit].take(grant.keyId, policy, clock)
      if (!Effect.isEffect(decision)) return judged(grant, decision)
      return Effect.flatMap(
        Effect.mapError(decision, (cause) => new Refusal({ code: "service_unavailable", cause })),
        (decided) => asStep(judged(grant, decided)),
      )
    }
    const principal = authenticate(exchange, clock)
    return Effect.isEffect(principal)
      ? Effect.flatMap(principal, (found) => asStep(admitted(found)))
      : admitted(principal)
  }

const insufficientScope = (scope: string): Refusal =>
  new Refusal({
    code: "insufficient_scope",
    message: `This API key lacks the scope ${scope}, which this endpoint requires. Use a key with this scope.`,
    details: { required_scope: scope },
    headers: { "www-authenticate": `Bearer realm="api", error="insufficient_scope", scope="${scope}"` },
  })

/** Decides about the requests of keys under one limit. */
export interface KeyLimiter {
  /** The decision, at once where it needs no store. */
  readonly take: (
    keyId: string,
    policy: RateLimitPolicy,
    clock: Clock.Clock,
  ) => RateLimitDecision | Effect.Effect<RateLimitDecision, StoreUnavailable>
}

/** The limiter of each limit of keys. */
export type KeyLimiters = Readonly<Record<keyof KeyLimits, KeyLimiter>>

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
    return decisionOf(held, now, true)
  }
  return now < held.emptyUntil ? decisionOf(held, now, false) : undefined
}

/** The store refills a bucket no further than the burst without the portions that processes hold. */
const decisionOf = (
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

/** The time that a read waits for a slow store, in milliseconds, and the time for which the store is then not asked again. */
const slowMs = 250
const restMs = 1_000

/**
 * Limits reads by the buckets that processes share, and by this process's own while the store is away or slow: a read that could be
 * answered must not fail because its limit cannot be looked up. Everything else needs the store anyway.
 */
export const limitReads = (shared: KeyLimiter): KeyLimiter => {
  const own = localKeyLimiter()
  let restsUntil = -Infinity
  return {
    take: (keyId, policy, clock) => {
      if (monotonicMs(clock) < restsUntil) return own.take(keyId, policy, clock)
      const decision = shared.take(keyId, policy, clock)
      if (!Effect.isEffect(decision)) return decision
      return Effect.flatMap(Effect.timeoutOption(decision, slowMs), Effect.fromOption).pipe(
        Effect.catch(() => {
          restsUntil = monotonicMs(clock) + restMs
          return Effect.succeed(own.take(keyId, policy, clock))
        }),
      )
    },
  }
}

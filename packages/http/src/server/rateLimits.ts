import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type KeyLimits, keyLimitNames, type RateLimitPolicy, type StoreUnavailable, TOKEN } from "@kiln/core/domain"
import { type PortionSource, TokenPortion } from "@kiln/core/effect"
import type { RateLimitStore } from "@kiln/core/ports"

/** The rate limits: four groups of operations per API key; failed authentications and full page responses per client address. */
export const rateLimitNames = [...keyLimitNames, "authentication", "pages"] as const
export type RateLimitName = (typeof rateLimitNames)[number]

export type RateLimits = Readonly<Record<RateLimitName, RateLimitPolicy>>

export const defaultRateLimits: RateLimits = {
  create: { perMinute: 60, burst: 30 },
  upload: { perMinute: 60, burst: 30 },
  read: { perMinute: 3000, burst: 300 },
  delete: { perMinute: 300, burst: 300 },
  authentication: { perMinute: 30, burst: 30 },
  pages: { perMinute: 60, burst: 60 },
}

export interface RateLimitDecision {
  readonly allowed: boolean
  /** Requests per minute; 0 if the limit is disabled. */
  readonly limit: number
  /** Requests that would be allowed right now, after this one. */
  readonly remaining: number
  /** Seconds, rounded up, until one more request is allowed. */
  readonly resetSeconds: number
  /** Seconds, at least 1, after which the rejected request would be allowed; 0 if this one was allowed. */
  readonly retryAfterSeconds: number
}

/** The decision of a limit that is disabled. */
const unlimited: RateLimitDecision = {
  allowed: true,
  limit: 0,
  remaining: 0,
  resetSeconds: 0,
  retryAfterSeconds: 0,
}

const DEFAULT_MAX_KEYS = 50_000

interface Bucket {
  level: number
  atMs: number
}

/**
 * Token buckets by key, in bounded memory of this process. Buckets live in two generations: those used since the last
 * rotation, and those used in the generation before. A rotation drops buckets used in neither. It happens as soon as all
 * dropped buckets are full again (a full bucket is equivalent to a missing one), or when a generation holds half of
 * `maxKeys`; then the least recently used buckets are dropped, full or not. No operation iterates over the keys.
 */
export class RateLimiter {
  readonly policy: RateLimitPolicy
  readonly #maxGeneration: number
  readonly #fillMs: number
  #recent = new Map<string, Bucket>()
  #older = new Map<string, Bucket>()
  #turnedAtMs = 0

  /** `maxKeys` defaults to 50,000 (about 10 MB); at least 2. */
  constructor(policy: RateLimitPolicy, options?: { readonly maxKeys?: number }) {
    this.policy = policy
    this.#maxGeneration = Math.max(1, Math.floor((options?.maxKeys ?? DEFAULT_MAX_KEYS) / 2))
    this.#fillMs = Math.ceil((policy.burst * TOKEN) / policy.perMinute)
  }

  /** Number of keys in memory. */
  get size(): number {
    return this.#recent.size + this.#older.size
  }

  /** Takes one token from a key's bucket if available. A clock that is set back only pauses the refill. */
  take(key: string, nowMs: number): RateLimitDecision {
    const { perMinute } = this.policy
    if (perMinute === 0) return unlimited
    const now = Math.floor(nowMs)
    const bucket = this.#bucketOf(key, now)
    bucket.level = this.#levelAt(bucket, now)
    bucket.atMs = now
    const allowed = bucket.level >= TOKEN
    if (allowed) bucket.level -= TOKEN

    const resetSeconds = Math.ceil(Math.ceil((TOKEN - (bucket.level % TOKEN)) / perMinute) / 1000)
    return {
      allowed,
      limit: perMinute,
      remaining: Math.floor(bucket.level / TOKEN),
      resetSeconds,
      retryAfterSeconds: allowed ? 0 : resetSeconds,
    }
  }

  #levelAt(bucket: Bucket, now: number): number {
    const { perMinute, burst } = this.policy
    return Math.min(burst * TOKEN, bucket.level + Math.max(0, now - bucket.atMs) * perMinute)
  }

  #bucketOf(key: string, now: number): Bucket {
    if (now < this.#turnedAtMs) this.#turnedAtMs = now
    if (now - this.#turnedAtMs >= this.#fillMs) this.#turn(now)
    const recent = this.#recent.get(key)
    if (recent !== undefined) return recent
    // Fetched before a rotation could drop it, because it is in use.
    const bucket = this.#older.get(key) ?? { level: this.policy.burst * TOKEN, atMs: now }
    this.#older.delete(key)
    if (this.#recent.size >= this.#maxGeneration) this.#turn(now)
    this.#recent.set(key, bucket)
    return bucket
  }

  #turn(now: number): void {
    this.#older = this.#recent
    this.#recent = new Map()
    this.#turnedAtMs = now
  }
}

// A monotonic clock, because the ages of admissions and of portions decide what is asked again.
export const monotonicMs = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

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

import { keyLimitNames, type RateLimitPolicy, TOKEN } from "@kiln/core/domain"

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
export const unlimited: RateLimitDecision = {
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

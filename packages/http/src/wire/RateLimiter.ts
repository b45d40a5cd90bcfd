import { parseJsonObject } from "./StrictJson.ts"

/** What is limited: four groups of operations per API key, and per client address failed authentications and pages sent whole. */
export const rateLimitNames = ["create", "upload", "read", "delete", "authentication", "pages"] as const
export type RateLimitName = (typeof rateLimitNames)[number]

/** A token bucket: `burst` tokens at most, `perMinute` new ones a minute. `perMinute: 0` switches the limit off. */
export interface RateLimitPolicy {
  readonly perMinute: number
  readonly burst: number
}
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
  /** Requests a minute; 0 when the limit is off. */
  readonly limit: number
  /** Requests that would be allowed right now, after this one. */
  readonly remaining: number
  /** Seconds, rounded up, until one more request is allowed than now. */
  readonly resetSeconds: number
  /** Seconds, at least 1, after which the refused request would be allowed; 0 when this one was. */
  readonly retryAfterSeconds: number
}

const off: RateLimitDecision = { allowed: true, limit: 0, remaining: 0, resetSeconds: 0, retryAfterSeconds: 0 }

// Levels are counted in 1/60,000 of a token, `perMinute` of which flow in each millisecond: all whole numbers, so a
// caller who waits exactly as long as it was told is never refused for a rounding error.
const TOKEN = 60_000
const DEFAULT_MAX_KEYS = 50_000

interface Bucket {
  level: number
  atMs: number
}

/**
 * Token buckets by key, in this process's memory, which is bounded: buckets live in two generations, those used since
 * the last turn and those used in the generation before. A turn lets go of what was used in neither. It comes as soon
 * as every bucket it lets go of has filled up again (a full bucket and none at all are the same, so nobody notices), or
 * when a generation holds half of `maxKeys`: then the least recently used are forgotten, full or not. No step walks
 * over the keys.
 */
export class RateLimiter {
  readonly policy: RateLimitPolicy
  readonly #maxGeneration: number
  readonly #fillMs: number
  #recent = new Map<string, Bucket>()
  #older = new Map<string, Bucket>()
  #turnedAtMs = 0

  /** `maxKeys` is 50,000 unless given (some 10 MB), and 2 at least. */
  constructor(policy: RateLimitPolicy, options?: { readonly maxKeys?: number }) {
    this.policy = policy
    this.#maxGeneration = Math.max(1, Math.floor((options?.maxKeys ?? DEFAULT_MAX_KEYS) / 2))
    this.#fillMs = Math.ceil((policy.burst * TOKEN) / policy.perMinute)
  }

  /** Keys held in memory. */
  get size(): number {
    return this.#recent.size + this.#older.size
  }

  /** Takes one token of a key's bucket if there is one. A clock that goes back only stops the flow until it moves on. */
  take(key: string, nowMs: number): RateLimitDecision {
    const { perMinute } = this.policy
    if (perMinute === 0) return off
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
    // Fetched before a turn may let it go: it is in use.
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

/** The header fields of a limit (draft-ietf-httpapi-ratelimit-headers); none when it is off. */
export const rateLimitHeaders = (name: RateLimitName, decision: RateLimitDecision): Readonly<Record<string, string>> =>
  decision.limit === 0
    ? {}
    : {
        "RateLimit-Policy": `"${name}";q=${decision.limit};w=60`,
        RateLimit: `"${name}";r=${decision.remaining};t=${decision.resetSeconds}`,
      }

export type ParsedRateLimits =
  | { readonly ok: true; readonly limits: RateLimits }
  | { readonly ok: false; readonly problem: string }

const MAX_RATE = 1_000_000
const refused = (problem: string): ParsedRateLimits => ({ ok: false, problem })

const isRate = (value: unknown, min: number): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= min && value <= MAX_RATE

/**
 * Reads `KILN_RATE_LIMITS`: `default`, `off`, or JSON like `{"create":{"per_minute":60,"burst":30}}`. Limits not named
 * keep their default, `burst` defaults to `per_minute`, and `"per_minute":0` switches one limit off.
 */
export const parseRateLimits = (text: string): ParsedRateLimits => {
  const setting = text.trim()
  if (setting === "default") return { ok: true, limits: defaultRateLimits }
  const limits: Record<RateLimitName, RateLimitPolicy> = { ...defaultRateLimits }
  if (setting === "off") {
    for (const name of rateLimitNames) limits[name] = { perMinute: 0, burst: 0 }
    return { ok: true, limits }
  }
  const json = parseJsonObject(new TextEncoder().encode(setting), { maxDepth: 2 })
  if (!json.ok) return refused("must be default, off, or a JSON object of limits with no key twice")
  for (const [key, value] of Object.entries(json.value)) {
    const name = rateLimitNames.find((candidate) => candidate === key)
    if (name === undefined)
      return refused(`${JSON.stringify(key)} is no limit; the limits are ${rateLimitNames.join(", ")}`)
    const policy = parsePolicy(value)
    if (typeof policy === "string") return refused(`${name}: ${policy}`)
    limits[name] = policy
  }
  return { ok: true, limits }
}

const parsePolicy = (value: unknown): RateLimitPolicy | string => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "must be an object"
  const fields = new Map<string, unknown>(Object.entries(value))
  for (const field of fields.keys())
    if (field !== "per_minute" && field !== "burst") return "may hold per_minute and burst only"
  const perMinute = fields.get("per_minute")
  if (!isRate(perMinute, 0)) return `per_minute must be a whole number from 0 (off) to ${MAX_RATE}`
  const burst = fields.has("burst") ? fields.get("burst") : perMinute
  if (!isRate(burst, perMinute === 0 ? 0 : 1)) return `burst must be a whole number from 1 to ${MAX_RATE}`
  return { perMinute, burst }
}

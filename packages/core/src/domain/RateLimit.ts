import { unknownName } from "./givenValues.ts"

/** The rate limits of a key: four groups of operations. */
export const keyLimitNames = ["create", "upload", "read", "delete"] as const
export type KeyLimitName = (typeof keyLimitNames)[number]

/** A token bucket: at most `burst` tokens, refilled with `perMinute` tokens per minute. `perMinute: 0` disables the limit. */
export interface RateLimitPolicy {
  readonly perMinute: number
  readonly burst: number
}

/** The limits of one key that replace those of the installation. */
export type KeyLimits = { readonly [Name in KeyLimitName]?: RateLimitPolicy }

const maxRate = 1_000_000

/** Returns what is wrong with a policy, or `undefined` if it is valid. */
const rateLimitProblem = ({ burst, perMinute }: RateLimitPolicy): string | undefined => {
  const isRate = (value: unknown, min: number) =>
    typeof value === "number" && Number.isInteger(value) && value >= min && value <= maxRate
  if (!isRate(perMinute, 0)) return `the requests per minute must be an integer from 0 (off) to ${maxRate}`
  return isRate(burst, perMinute === 0 ? 0 : 1) ? undefined : `the burst must be an integer from 1 to ${maxRate}`
}

/** Returns what is wrong with the limits of a key, or `undefined` if they are valid. */
export const keyLimitsProblem = (limits: KeyLimits): string | undefined => {
  if (typeof limits !== "object" || limits === null) return "limits must be an object"
  for (const [name, policy] of Object.entries(limits)) {
    if (!keyLimitNames.some((known) => known === name)) return unknownName(`limit "${name}"`, name, keyLimitNames)
    const problem = rateLimitProblem(policy)
    if (problem !== undefined) return `limit ${name}: ${problem}`
  }
  return undefined
}

/**
 * Levels of buckets are counted in 1/60,000 of a token, of which `perMinute` flow in each millisecond. All numbers are integers, so a
 * caller that waits exactly as long as told is never rejected because of a rounding error.
 */
export const TOKEN = 60_000

/** Tokens that a process has taken from a bucket ahead of need. */
export interface Portion {
  readonly tokens: number
  /** When it counts as used up, in Unix milliseconds of store time. The process stops using it earlier, by its own clock. */
  readonly until: number
}

/** A bucket that many processes share, as it was at a time. */
export interface SharedBucket {
  /** Tokens that can still be taken, in 1/60,000 of a token. */
  readonly level: number
  /** Unix milliseconds of store time. */
  readonly at: number
  /** By process. */
  readonly portions: Readonly<Record<string, Portion>>
}

/** A process's request for tokens of one bucket. It ends the portion that the process has. */
export interface PortionRequest {
  readonly policy: RateLimitPolicy
  /** Identifies the process. */
  readonly process: string
  /** The rest of the process's portion, which goes back. */
  readonly unused: number
  /** Tokens it would like to have; 0 only returns the rest. */
  readonly wanted: number
  /** The time in which it may use them, in milliseconds. */
  readonly ttlMs: number
}

/** The answer to a process. */
export interface TakenPortion {
  /** Tokens that the process may use until its request is `ttlMs` old. */
  readonly tokens: number
  /** Tokens that can still be taken, in 1/60,000 of a token. */
  readonly level: number
}

type Held = ReadonlyArray<readonly [process: string, portion: Portion]>

const tokensOf = (held: Held): number => held.reduce((sum, [, { tokens }]) => sum + tokens * TOKEN, 0)

/**
 * Returns the level at a time, and the portions that are still held. While a portion is held, the bucket refills no further than the
 * rest of the burst; afterwards its tokens count as used.
 */
const refill = ({ at, level, portions }: SharedBucket, { burst, perMinute }: RateLimitPolicy, now: number) => {
  const held = Object.entries(portions).sort(([, one], [, other]) => one.until - other.until)
  let filled = level
  let since = at
  const fillUntil = (time: number) => {
    const room = Math.max(0, burst * TOKEN - tokensOf(held))
    filled = Math.min(room, filled + Math.max(0, time - since) * perMinute)
    since = Math.max(since, time)
  }
  for (let next = held[0]; next !== undefined && next[1].until <= now; next = held[0]) {
    fillUntil(next[1].until)
    held.shift()
  }
  fillUntil(now)
  return { level: filled, at: since, held }
}

/**
 * Takes a portion for a process. The level and all portions together never hold more than the burst, and grow only at the rate of the
 * policy. So no number of processes admits more requests than one would. A portion that is not returned in time counts as used.
 *
 * A process gets at most half of the tokens, so that others find some as well.
 */
export const takePortion = (
  bucket: SharedBucket | undefined,
  { policy, process, ttlMs, unused, wanted }: PortionRequest,
  now: number,
): { readonly bucket: SharedBucket; readonly taken: TakenPortion } => {
  const full: SharedBucket = { level: policy.burst * TOKEN, at: now, portions: {} }
  const refilled = refill(bucket ?? full, policy, now)
  const others = refilled.held.filter(([holder]) => holder !== process)
  const own = refilled.held.find(([holder]) => holder === process)?.[1].tokens ?? 0
  // Rounded down, because a rate need not be a whole number per minute.
  const returned = Math.floor(refilled.level) + Math.min(own, unused) * TOKEN
  // The policy may have become smaller since.
  const level = Math.min(returned, Math.max(0, full.level - tokensOf(others)))
  const tokens = Math.min(wanted, Math.ceil(Math.floor(level / TOKEN) / 2))
  const left = level - tokens * TOKEN
  const portion: Held = tokens > 0 ? [[process, { tokens, until: now + ttlMs }]] : []
  return {
    bucket: { level: left, at: refilled.at, portions: Object.fromEntries([...others, ...portion]) },
    taken: { tokens, level: left },
  }
}

/** Returns when a bucket is as good as a new one at the latest, so that a store need not keep it. */
export const fullAt = ({ at, level, portions }: SharedBucket, { burst, perMinute }: RateLimitPolicy): number =>
  Math.max(at, ...Object.values(portions).map(({ until }) => until)) +
  Math.ceil(Math.max(0, burst * TOKEN - level) / (perMinute > 0 ? perMinute : 1))

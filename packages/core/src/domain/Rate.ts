import { unknownName } from "./givenValues.ts"
import type { RateLimitPolicy } from "./RateLimit.ts"

const maxRate = 1_000_000

/** At most `limit` starts in `perMs` milliseconds in the long run, over all processes, with up to `burst` of them at once. */
export interface Rate {
  /** An integer from 1 to 1,000,000. */
  readonly limit: number
  readonly perMs: number
  /**
   * The number that may start at once after a pause, from 1 to 1,000,000. Any period of `perMs` has at most `limit + burst` starts. By
   * default a tenth of `limit`, but at least 2.
   */
  readonly burst?: number
}

/** Returns what is wrong with a rate, or `undefined` if it is valid. */
export const rateProblem = (rate: unknown): string | undefined => {
  if (typeof rate !== "object" || rate === null || Array.isArray(rate))
    return "must be an object { limit, perMs, burst }"
  const { burst, limit, perMs, ...others } = rate as { readonly [Name in keyof Rate]?: unknown }
  const [other] = Object.keys(others)
  if (other !== undefined) return unknownName(`field "${other}"`, other, ["limit", "perMs", "burst"])
  const isCount = (value: unknown) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= maxRate
  if (!isCount(limit)) return `needs a limit that is an integer from 1 to ${maxRate}`
  if (typeof perMs !== "number" || !(perMs >= 1 && perMs <= longestPeriodMs))
    return "needs a perMs from 1 to a year, in milliseconds"
  return burst === undefined || isCount(burst) ? undefined : `needs a burst that is an integer from 1 to ${maxRate}`
}

const longestPeriodMs = 366 * 86_400_000

/** Returns the token bucket of a rate. */
export const policyOfRate = ({ limit, perMs, burst = Math.max(2, Math.ceil(limit / 10)) }: Rate): RateLimitPolicy => ({
  perMinute: (limit * 60_000) / perMs,
  burst,
})

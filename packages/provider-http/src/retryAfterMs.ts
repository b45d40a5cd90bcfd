/** Maximum wait: one day. The engine waits less than this in any case. */
const MAX_MS = 24 * 60 * 60 * 1000
const DECIMAL = /^\d+(\.\d+)?$/

/** Returns the value of a header by its lower-case name. */
export type HeaderLookup = (name: string) => string | undefined

/**
 * Returns the wait requested by a provider in milliseconds: `retry-after-ms`, or else `retry-after` in seconds or as a
 * date. A date is relative to the response's own `date`, so that clock skew has no effect, or to `nowMs` without one.
 * Unreadable values are ignored; waits are capped at a day.
 */
export const retryAfterMs = (header: HeaderLookup, nowMs: number | undefined): number | undefined =>
  [decimal(header("retry-after-ms")), retryAfter(header, nowMs)]
    .filter((wait) => wait !== undefined)
    .map((wait) => Math.min(Math.ceil(wait), MAX_MS))[0]

const retryAfter = (header: HeaderLookup, nowMs: number | undefined): number | undefined => {
  const seconds = decimal(header("retry-after"))
  if (seconds !== undefined) return seconds * 1000
  const until = epochMs(header("retry-after"))
  const from = epochMs(header("date")) ?? nowMs
  return until === undefined || from === undefined ? undefined : Math.max(0, until - from)
}

const decimal = (text: string | undefined): number | undefined =>
  text !== undefined && DECIMAL.test(text.trim()) ? Number(text) : undefined

const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /

/** Parses an HTTP date, which begins with a weekday. `Date.parse` alone would accept `-5` as well. */
const epochMs = (text: string | undefined): number | undefined => {
  const parsed = Date.parse(text !== undefined && HTTP_DATE.test(text) ? text : "")
  return Number.isNaN(parsed) ? undefined : parsed
}

/** Longer than a day is no wait but a way to say never. The engine waits less than this in any case. */
const MAX_MS = 24 * 60 * 60 * 1000
const DECIMAL = /^\d+(\.\d+)?$/

/** What a header is called in lower case, and what it says. */
export type HeaderLookup = (name: string) => string | undefined

/**
 * Milliseconds a provider asks us to wait: `retry-after-ms`, or else `retry-after` in seconds or as a date. A date counts
 * from the answer's own `date`, which no difference between two clocks can spoil, and from `nowMs` where there is none.
 * What cannot be read is ignored; what is longer than a day counts as one.
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

/** The dates of HTTP begin with a weekday; `Date.parse` would take `-5` for one as well. */
const epochMs = (text: string | undefined): number | undefined => {
  const parsed = Date.parse(text !== undefined && HTTP_DATE.test(text) ? text : "")
  return Number.isNaN(parsed) ? undefined : parsed
}

/** Formats a time as RFC 3339 in UTC with milliseconds; `null` stays `null`. */
export const formatTime = <Time extends number | null>(time: Time): Time extends null ? null : string =>
  (time === null ? null : new Date(time).toISOString()) as Time extends null ? null : string

/** Returns the value below which this share of the numbers lies, which are sorted; 0 without any. */
export const percentile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

/** Returns the 50th, 95th and 99th percentile of milliseconds, in seconds. */
export const percentilesOf = (milliseconds: ReadonlyArray<number>) => {
  const sorted = milliseconds.toSorted((one, other) => one - other)
  const at = (share: number) => percentile(sorted, share) / 1_000
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}

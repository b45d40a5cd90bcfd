import * as Duration from "effect/Duration"

type Unit = "second" | "minute" | "hour" | "day" | "week"

/** A span of time: milliseconds, or words as `"5 minutes"`. */
export type TimeSpan = number | `${number} ${Unit | `${Unit}s`}`

/** Parses a duration into a non-negative integer of milliseconds. Throws for an invalid duration. */
export const millisecondsOf = (span: TimeSpan): number => {
  const duration = Duration.fromInput(span)
  const ms = duration._tag === "Some" ? Duration.toMillis(duration.value) : Number.NaN
  if (!(Number.isFinite(ms) && ms >= 0)) throw new TypeError(`"${span}" is no span of time`)
  return Math.ceil(ms)
}

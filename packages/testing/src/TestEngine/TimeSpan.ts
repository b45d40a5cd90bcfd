import * as Duration from "effect/Duration"

type Unit = "second" | "minute" | "hour" | "day" | "week"

/** A duration: milliseconds, or words such as `"5 minutes"`. */
export type TimeSpan = number | `${number} ${Unit | `${Unit}s`}`

/** Parses a duration into a non-negative integer of milliseconds. Throws for an invalid duration. */
export const millisecondsOf = (span: TimeSpan): number => {
  const duration = Duration.fromInput(span)
  const ms = duration._tag === "Some" ? Duration.toMillis(duration.value) : Number.NaN
  if (!(Number.isFinite(ms) && ms >= 0))
    throw new TypeError(`"${span}" is not a duration; use milliseconds or words such as "5 minutes"`)
  return Math.ceil(ms)
}

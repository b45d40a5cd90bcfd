import * as Effect from "effect/Effect"
import { type CommandFailed, misused } from "../CommandFailed.ts"

/** RFC 3339, or only the date. The offset is required, because a local time would differ between machines. */
const shape =
  /^(\d{4}-\d\d-\d\d)(?:[Tt]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d+))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d)))?$/

/** Parses a time as Unix milliseconds, rounded up, because it is compared with full milliseconds; `undefined` if invalid. */
export const parseMoment = (text: string): number | undefined => {
  const [, date, hours = "00", minutes = "00", seconds = "00", fraction = "", sign, offsetHours, offsetMinutes] =
    shape.exec(text) ?? []
  if (date === undefined) return undefined
  const midnight = Date.parse(`${date}T00:00:00Z`)
  // Reject dates like February 30, which would otherwise become March 2.
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date)) return undefined
  const offset = Number(`${sign ?? "+"}1`) * (Number(offsetHours ?? 0) * 60 + Number(offsetMinutes ?? 0))
  const wholeSeconds = (Number(hours) * 60 + Number(minutes) - offset) * 60 + Number(seconds)
  const milliseconds = Number(fraction.slice(0, 3).padEnd(3, "0")) + (/[1-9]/.test(fraction.slice(3)) ? 1 : 0)
  return midnight + wholeSeconds * 1_000 + milliseconds
}

/** Parses the time given by a flag. */
export const momentOf = (flag: string, text: string): Effect.Effect<number, CommandFailed> => {
  const moment = parseMoment(text)
  return moment === undefined
    ? Effect.fail(
        misused(
          `--${flag} must be a date like 2026-11-01, which is its midnight in UTC, or RFC 3339 like 2026-11-01T00:00:00+01:00`,
        ),
      )
    : Effect.succeed(moment)
}

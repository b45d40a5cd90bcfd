import { Effect } from "effect"
import { type CommandFailed, misused } from "../CommandFailed.ts"

/** RFC 3339, or its date alone. The offset is not optional: a time of nowhere would be another one on each machine. */
const shape =
  /^(\d{4}-\d\d-\d\d)(?:[Tt]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d+))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d)))?$/

/** Unix milliseconds; of finer digits the next one, for times compared with it are whole. `undefined` for what is no date. */
export const parseMoment = (text: string): number | undefined => {
  const [, date, hours = "00", minutes = "00", seconds = "00", fraction = "", sign, offsetHours, offsetMinutes] =
    shape.exec(text) ?? []
  if (date === undefined) return undefined
  const midnight = Date.parse(`${date}T00:00:00Z`)
  // There is no 30th of February, and nobody means the 2nd of March by it.
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date)) return undefined
  const offset = Number(`${sign ?? "+"}1`) * (Number(offsetHours ?? 0) * 60 + Number(offsetMinutes ?? 0))
  const wholeSeconds = (Number(hours) * 60 + Number(minutes) - offset) * 60 + Number(seconds)
  const milliseconds = Number(fraction.slice(0, 3).padEnd(3, "0")) + (/[1-9]/.test(fraction.slice(3)) ? 1 : 0)
  return midnight + wholeSeconds * 1_000 + milliseconds
}

/** The moment that a flag names. */
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

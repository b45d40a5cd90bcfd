import * as Effect from "effect/Effect"
import { type CommandFailed, misused } from "./CommandFailed.ts"
import { readSettings, type Settings } from "./Settings.ts"

/** Reads the settings of this process. Reports all invalid settings at once, and warns about unknown names. */
export const readEnvironment: Effect.Effect<Settings, CommandFailed> = Effect.gen(function* () {
  const read = readSettings(process.env)
  if (!read.ok) {
    const lines = read.problems.map(({ rule, setting }) => `${setting} ${rule}`)
    return yield* misused(lines.length === 1 ? lines.join("") : `settings are invalid:\n  ${lines.join("\n  ")}`)
  }
  for (const warning of read.warnings) yield* Effect.logWarning(warning)
  return read.settings
})

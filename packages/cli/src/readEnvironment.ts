import * as Effect from "effect/Effect"
import { type CommandFailed, misused } from "./CommandFailed.ts"
import { ProcessIo } from "./ProcessIo.ts"
import { type ReadSettings, readSettings, type Settings } from "./Settings.ts"

/** Reads the settings of this process and where each comes from. Reports all invalid ones at once, and warns about unknown names. */
export const readGivenSettings: Effect.Effect<Extract<ReadSettings, { readonly ok: true }>, CommandFailed> = Effect.gen(
  function* () {
    const read = readSettings((yield* ProcessIo).environment)
    if (!read.ok) {
      const lines = read.problems.map(({ rule, setting }) => `${setting} ${rule}`)
      return yield* misused(lines.length === 1 ? lines.join("") : `settings are invalid:\n  ${lines.join("\n  ")}`)
    }
    for (const warning of read.warnings) yield* Effect.logWarning(warning)
    return read
  },
)

/** Reads the settings of this process. */
export const readEnvironment: Effect.Effect<Settings, CommandFailed> = Effect.map(
  readGivenSettings,
  ({ settings }) => settings,
)

import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import { loadConfig } from "../loadModule.ts"
import { answer, formatTable } from "../Output.ts"
import { readGivenSettings } from "../readEnvironment.ts"
import { effectiveSettings } from "../settings/effectiveSettings.ts"

const show = Command.make("show", {}, () =>
  Effect.gen(function* () {
    const read = yield* readGivenSettings
    const settings = effectiveSettings(read, yield* loadConfig(read.settings.configPath))
    yield* answer({
      json: { settings },
      text: formatTable(
        ["SETTING", "VALUE", "FROM"],
        settings.map(({ file, setting, source, value }) => [
          setting,
          value,
          file === null ? source : `${source} ${file}`,
        ]),
        "",
      ),
    })
  }),
).pipe(
  Command.withDescription(
    "Show every setting with its value in effect and where it comes from (default, environment, file); secrets are hidden",
  ),
)

export const configCommand = Command.make("config").pipe(
  Command.withDescription("Show the settings in effect"),
  Command.withSubcommands([show]),
)

import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { KeyDirectory } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { answer } from "../Output.ts"
import { recordChange } from "../recordChange.ts"
import { withStores } from "../withStores.ts"
import { keyLimitFlag, limitFields, limitsText, limitsWith } from "./keyLimitFlag.ts"

const flags = {
  id: Argument.String("KEY_ID").pipe(Argument.withDescription("The key's id, from `kiln key list`")),
  limits: keyLimitFlag,
  clear: Flag.Boolean("clear").pipe(
    Flag.withDescription("Remove all limits of the key, so that the installation's apply"),
    Flag.withDefault(false),
  ),
}

export const keyLimit = Command.make("limit", flags, ({ clear, id, limits: given }) =>
  withStores(
    Effect.gen(function* () {
      if (clear && given.length > 0) return yield* misused("--clear goes with no other flag")
      const directory = yield* KeyDirectory
      const key = (yield* directory.listKeys).find((known) => known.id === id)
      if (key === undefined) return yield* failed(`there is no key ${id}: see kiln key list`)
      const limits = clear ? {} : yield* limitsWith(key.limits, given)
      if (clear || given.length > 0) {
        const details = { limits: limitFields(limits) }
        yield* directory.limitKey(key.id, limits).pipe(recordChange({ action: "key.limit", subject: key.id, details }))
      }
      const text = limitsText(limits)
      yield* answer({
        json: { key_id: key.id, limits: limitFields(limits) },
        text: text === "" ? `${key.id} has the limits of the installation` : `${key.id}: ${text}`,
      })
    }),
  ),
).pipe(
  Command.withDescription("Show or set the rate limits of an API key; running servers apply them within 5 seconds"),
  Command.withExamples([
    { command: "kiln key limit KEY_ID --limit create=120/min:60 --limit read=off" },
    { command: "kiln key limit KEY_ID --limit create=default", description: "The installation's limit again" },
  ]),
)

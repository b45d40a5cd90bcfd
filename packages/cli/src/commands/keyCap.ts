import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { KeyDirectory } from "@kiln/core/ports"
import { failed } from "../CommandFailed.ts"
import { withStores } from "../withStores.ts"
import { capOwner, listCaps, spendCapFlags } from "./spendCap.ts"

const id = Argument.String("KEY_ID").pipe(
  Argument.withDescription("The key's id, from `kiln key list`; without it, all caps of keys are listed"),
  Argument.optional,
)

export const keyCap = Command.make("cap", { id, ...spendCapFlags }, ({ id: wanted, ...given }) =>
  withStores(
    Effect.gen(function* () {
      const keys = (yield* (yield* KeyDirectory).listKeys).map((key) => ({ id: key.id, name: key.id }))
      if (Option.isNone(wanted)) return yield* listCaps("key", keys, given)
      const key = keys.find((known) => known.id === wanted.value)
      if (key === undefined) return yield* failed(`there is no key ${wanted.value}: see kiln key list`)
      yield* capOwner("key", key, given)
    }),
  ),
).pipe(
  Command.withDescription("Show or set the most that a key's live jobs may cost in a day and in a month (UTC)"),
  Command.withExamples([
    { command: "kiln key cap KEY_ID --day 5", description: "In US dollars" },
    { command: "kiln key cap KEY_ID --clear" },
  ]),
)

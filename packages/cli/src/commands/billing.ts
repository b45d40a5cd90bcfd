import * as Command from "effect/cli/Command"
import { billingExport } from "./billingExport.ts"

export const billingCommand = Command.make("billing").pipe(
  Command.withDescription("Read the ledger of live jobs"),
  Command.withSubcommands([billingExport]),
)

import type { SwitchName } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Flag } from "../Tables.ts"
import type { Transaction } from "../Transaction.ts"

/** A switch that was never set has no row, and is off. */
const upsertSwitch = statement((given: Given<{ name: SwitchName; enabled: Flag }>) =>
  query
    .insertInto("switches")
    .values({ name: given.name, enabled: given.enabled })
    .onConflict((conflict) => conflict.column("name").doUpdateSet({ enabled: given.enabled })),
)

export const setSwitch = (tx: Transaction, name: SwitchName, on: boolean): void => {
  tx.run(upsertSwitch, { name, enabled: on ? 1 : 0 })
}

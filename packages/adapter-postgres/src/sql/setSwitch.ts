import type { SwitchName } from "@kiln/core/domain"
import type { Transaction } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

/** A switch that was never set has no row, and is off. */
const upsertSwitch = statement((given: Given<{ name: SwitchName; enabled: boolean }>) =>
  query
    .insertInto("switches")
    .values({ name: given.name, enabled: given.enabled })
    .onConflict((conflict) => conflict.column("name").doUpdateSet((set) => ({ enabled: set.ref("excluded.enabled") }))),
)

export const setSwitch = async (tx: Transaction, name: SwitchName, enabled: boolean): Promise<void> => {
  await tx.run(upsertSwitch, { name, enabled })
}

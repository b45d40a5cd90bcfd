import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** At most one version of a price is active, which a unique index repeats. */
export const deactivatePrice = statement((given: Given<{ name: string }>) =>
  query.updateTable("prices").set({ active: 0 }).where("name", "=", given.name).where("active", "=", 1),
)

/** Activating means the latest version. */
const activateLatest = statement((given: Given<{ name: string }>) =>
  query
    .updateTable("prices")
    .set({ active: 1 })
    .where("name", "=", given.name)
    .where("version", "=", (select) =>
      select
        .selectFrom("prices as all")
        .select((of) => of.fn.max("all.version").as("latest"))
        .where("all.name", "=", given.name),
    ),
)

const anyVersion = statement((given: Given<{ name: string }>) =>
  query.selectFrom("prices").select("id").where("name", "=", given.name).limit(1),
)

export const activatePrice = (tx: Transaction, name: string, active: boolean): boolean => {
  tx.run(deactivatePrice, { name })
  return active ? tx.run(activateLatest, { name }) === 1 : tx.get(anyVersion, { name }) !== undefined
}

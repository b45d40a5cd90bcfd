import { sql } from "kysely"
import type { Transaction } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

/** One transaction at a time changes a price, of whichever versions it has or gets. Ends with the transaction. */
const oneAtATime = statement((given: Given<{ name: string }>) =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".price ' || ${given.name}::text, 0))`.as(
      "lock",
    ),
  ),
)

/** Keeps other changes of this price away until the transaction ends. */
export const lockPrice = async (tx: Transaction, name: string): Promise<void> => {
  await tx.all(oneAtATime, { name })
}

/** At most one version of a price is active, which a unique index repeats. */
export const deactivatePrice = statement((given: Given<{ name: string }>) =>
  query.updateTable("prices").set({ active: false }).where("name", "=", given.name).where("active", "=", true),
)

/** Activating means the latest version. */
const activateLatest = statement((given: Given<{ name: string }>) =>
  query
    .updateTable("prices")
    .set({ active: true })
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

export const activatePrice = async (tx: Transaction, name: string, active: boolean): Promise<boolean> => {
  await lockPrice(tx, name)
  await tx.run(deactivatePrice, { name })
  return active ? (await tx.run(activateLatest, { name })) === 1 : (await tx.get(anyVersion, { name })) !== undefined
}

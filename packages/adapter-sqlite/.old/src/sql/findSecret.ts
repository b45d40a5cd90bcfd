import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const secretByName = statement((given: Given<{ name: string }>) =>
  query.selectFrom("secrets").select("value").where("name", "=", given.name),
)

/** A secret, if it was made already. */
export const findSecret = (tx: Transaction, name: string): Uint8Array | undefined => {
  const known = tx.get(secretByName, { name })
  return known === undefined ? undefined : Uint8Array.from(known.value)
}

import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const secretByName = statement((given: Given<{ name: string }>) =>
  query.selectFrom("secrets").select("value").where("name", "=", given.name),
)

const insertSecret = statement((given: Given<{ name: string; value: Uint8Array }>) =>
  query.insertInto("secrets").values({ name: given.name, value: given.value }),
)

const deleteSecret = statement((given: Given<{ name: string }>) =>
  query.deleteFrom("secrets").where("name", "=", given.name),
)

/** The write lock is held from the look to the insertion, so of several callers that race the first one's stays. */
export const getOrCreateSecret = (tx: Transaction, name: string, candidate: Uint8Array): Uint8Array => {
  const known = tx.get(secretByName, { name })
  if (known === undefined) tx.run(insertSecret, { name, value: candidate })
  // A plain copy: the driver hands out Node buffers, and what the caller changes later is the caller's.
  return Uint8Array.from(known?.value ?? candidate)
}

export const findSecret = (tx: Transaction, name: string): Uint8Array | undefined => {
  const known = tx.get(secretByName, { name })
  return known && Uint8Array.from(known.value)
}

/** Whether there was one. */
export const removeSecret = (tx: Transaction, name: string): boolean => tx.run(deleteSecret, { name }) === 1

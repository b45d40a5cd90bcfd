import type { KeyId } from "@kiln/core/domain"
import type { ApiKeyRecord } from "@kiln/core/ports"
import { keyOf, selectKeys } from "../KeyRow.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** The first revocation's time stays. */
const revoke = statement((given: Given<{ id: KeyId; now: number }>) =>
  query
    .updateTable("api_keys")
    .set({ revoked_at: given.now })
    .where("id", "=", given.id)
    .where("revoked_at", "is", null),
)

const keyById = statement((given: Given<{ id: KeyId }>) => selectKeys.where("api_keys.id", "=", given.id))

export const revokeKey = (tx: Transaction, id: KeyId): ApiKeyRecord | undefined => {
  tx.run(revoke, { id, now: tx.now })
  const row = tx.get(keyById, { id })
  return row && keyOf(row)
}

import type { ApiKeyRecord } from "@kiln/core/ports"
import { keyOf, selectKeys } from "../KeyRow.ts"
import { type Given, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** A secret whose overlap has ended is as unknown as one that never was. */
const keyBySecret = statement((given: Given<{ secretHash: string; now: number }>) =>
  selectKeys
    .innerJoin("key_secrets", "key_secrets.key_id", "api_keys.id")
    .where("key_secrets.secret_hash", "=", given.secretHash)
    .where((where) =>
      where.or([where("key_secrets.valid_until", "is", null), where("key_secrets.valid_until", ">", given.now)]),
    ),
)

export const findKey = (tx: Transaction, secretHash: string): ApiKeyRecord | undefined => {
  const row = tx.get(keyBySecret, { secretHash, now: tx.now })
  return row && keyOf(row)
}

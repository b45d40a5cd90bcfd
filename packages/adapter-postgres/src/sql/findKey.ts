import type { ApiKeyRecord } from "@kiln/core/ports"
import { keyOf, selectKeys } from "../KeyRow.ts"
import type { Session } from "../Session.ts"
import { type Given, statement, storeTime } from "../Statement.ts"

/** A secret whose overlap has ended is as unknown as one that never was. */
const keyBySecret = statement((given: Given<{ secretHash: string }>) =>
  selectKeys
    .innerJoin("key_secrets", "key_secrets.key_id", "api_keys.id")
    .where("key_secrets.secret_hash", "=", given.secretHash)
    .where((where) =>
      where.or([where("key_secrets.valid_until", "is", null), where("key_secrets.valid_until", ">", storeTime)]),
    ),
)

export const findKey = async (session: Session, secretHash: string): Promise<ApiKeyRecord | undefined> => {
  const row = await session.get(keyBySecret, { secretHash })
  return row && keyOf(row)
}

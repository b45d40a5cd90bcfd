import type { KeyId } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Notes arrive late and out of order; "last used" never goes back. */
const touch = statement((given: Given<{ keyId: KeyId; usedAt: number }>) =>
  query
    .updateTable("api_keys")
    .set({ last_used_at: given.usedAt })
    .where("id", "=", given.keyId)
    .where((where) => where.or([where("last_used_at", "is", null), where("last_used_at", "<", given.usedAt)])),
)

export const touchKeys = (
  tx: Transaction,
  uses: ReadonlyArray<{ readonly keyId: KeyId; readonly usedAt: number }>,
): void => {
  for (const { keyId, usedAt } of uses) tx.run(touch, { keyId, usedAt })
}

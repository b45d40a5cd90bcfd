import type { Job, KeyId } from "@kiln/core/domain"
import { jobByIdempotencyKey, jobOf } from "../JobRow.ts"
import type { Transaction } from "../Transaction.ts"

/** From the unique index that lets a key bind one job only. */
export const findByIdempotencyKey = (tx: Transaction, keyId: KeyId, idempotencyKey: string): Job | undefined => {
  const row = tx.get(jobByIdempotencyKey, { keyId, idempotencyKey })
  return row && jobOf(tx, row)
}

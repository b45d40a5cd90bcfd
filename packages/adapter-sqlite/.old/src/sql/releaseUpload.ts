import { isRepeatedGivingUp, type UploadId } from "@kiln/core/domain"
import type { FencedOutcome, TransferRef } from "@kiln/core/ports"
import { type Given, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { findUpload } from "./findUpload.ts"
import { transferOf } from "./transfer.ts"

const endTransfer = statement((given: Given<{ id: UploadId; token: number }>) =>
  transferOf(given).set({ claimed_until: null }),
)

/** The transfer counts, but another may begin. */
export const releaseUpload = (tx: Transaction, { token, uploadId: id }: TransferRef): FencedOutcome => {
  if (tx.run(endTransfer, { id, token }) === 1) return "Written"
  const upload = findUpload(tx, id)
  return upload !== undefined && isRepeatedGivingUp(upload, token) ? "Written" : "LeaseLost"
}

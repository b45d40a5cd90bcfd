import { judgeTransfer, type UploadId } from "@kiln/core/domain"
import type { ClaimUploadOutcome, NewTransfer } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { findUpload } from "./findUpload.ts"
import { storedBytes } from "./uploadCap.ts"

/** A new token, which is part of the blob's key: a loser never overwrites a winner. Only of the upload as it was read. */
const beginTransfer = statement(
  (given: Given<{ id: UploadId; fromToken: number; token: number; claimedUntil: number | null; transfers: number }>) =>
    query
      .updateTable("uploads")
      .set({ token: given.token, claimed_until: given.claimedUntil, transfers: given.transfers })
      .where("id", "=", given.id)
      .where("token", "=", given.fromToken)
      .where("blob_key", "is", null)
      .where("erased", "=", 0),
)

export const claimUpload = (tx: Transaction, transfer: NewTransfer): ClaimUploadOutcome => {
  const upload = findUpload(tx, transfer.uploadId)
  const stored = upload !== undefined && (transfer.capBytes ?? 0) > 0 ? storedBytes(tx, upload.projectId) : 0
  const outcome = judgeTransfer(transfer, upload, stored, tx.now)
  if (outcome._tag !== "Claimed") return outcome
  const { id, claimedUntil, token, transfers } = outcome.upload
  if (tx.run(beginTransfer, { id, fromToken: token - 1, token, claimedUntil, transfers }) !== 1)
    throw new TypeError(`${id} changed while its transfer began`)
  return outcome
}

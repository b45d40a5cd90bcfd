import { transferRefusal, type UploadId } from "@kiln/core/domain"
import type { ClaimUploadOutcome } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { uploadById, uploadOf } from "../UploadRow.ts"

/** A new token, which is part of the blob's key: a loser never overwrites a winner. Only of the upload as it was read. */
const beginTransfer = statement(
  (given: Given<{ id: UploadId; fromToken: number; token: number; claimedUntil: number; transfers: number }>) =>
    query
      .updateTable("uploads")
      .set({ token: given.token, claimed_until: given.claimedUntil, transfers: given.transfers })
      .where("id", "=", given.id)
      .where("token", "=", given.fromToken)
      .where("blob_key", "is", null)
      .where("erased", "=", 0),
)

export const claimUpload = (
  tx: Transaction,
  request: { readonly uploadId: UploadId; readonly leaseDurationMs: number; readonly maxTransfers: number },
): ClaimUploadOutcome => {
  const row = tx.get(uploadById, { id: request.uploadId })
  if (row === undefined) return { _tag: "NotFound" }
  const upload = uploadOf(row)
  const reason = transferRefusal(upload, tx.now, request.maxTransfers)
  if (reason !== undefined) return { _tag: "Refused", reason }
  const token = upload.token + 1
  const transfers = upload.transfers + 1
  const claimedUntil = tx.now + Math.ceil(request.leaseDurationMs)
  if (tx.run(beginTransfer, { id: upload.id, fromToken: upload.token, token, claimedUntil, transfers }) !== 1)
    throw new TypeError(`${upload.id} cannot be claimed`)
  return { _tag: "Claimed", token, upload: { ...upload, token, claimedUntil, transfers } }
}

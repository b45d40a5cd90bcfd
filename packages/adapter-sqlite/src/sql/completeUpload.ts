import { exceedsCap, holdsTransfer, isRepeatedReceipt, type UploadId } from "@kiln/core/domain"
import type { FencedOutcome, UploadStore } from "@kiln/core/ports"
import { type Given, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { findUpload } from "./findUpload.ts"
import { transferOf } from "./transfer.ts"
import { storedBytes } from "./uploadCap.ts"

/** The file and the end of the transfer are one update. */
const receive = statement(
  (given: Given<{ id: UploadId; token: number; blobKey: string; bytes: number; sha256: string }>) =>
    transferOf(given).set({ blob_key: given.blobKey, bytes: given.bytes, sha256: given.sha256, claimed_until: null }),
)

export const completeUpload = (
  tx: Transaction,
  {
    capBytes = 0,
    file: { blobKey, bytes, sha256 },
    token,
    uploadId: id,
  }: Parameters<UploadStore["Service"]["completeUpload"]>[0],
): FencedOutcome | "UploadsFull" => {
  const held = capBytes > 0 ? findUpload(tx, id) : undefined
  if (held !== undefined && holdsTransfer(held, token) && exceedsCap(storedBytes(tx, held.projectId), bytes, capBytes))
    return "UploadsFull"
  if (tx.run(receive, { id, token, blobKey, bytes, sha256 }) === 1) return "Written"
  const upload = findUpload(tx, id)
  return upload !== undefined && isRepeatedReceipt(upload, blobKey) ? "Written" : "LeaseLost"
}

import { exceedsCap, holdsTransfer, isRepeatedReceipt, type UploadId } from "@kiln/core/domain"
import type { FencedOutcome, UploadStore } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { type Given, statement } from "../Statement.ts"
import { findUpload } from "./findUpload.ts"
import { lockedUpload, transferOf } from "./transfer.ts"
import { lockedBytes } from "./uploadCap.ts"

/** The file and the end of the transfer are one update. */
const receive = statement(
  (given: Given<{ id: UploadId; token: number; blobKey: string; bytes: number; sha256: string }>) =>
    transferOf(given).set({ blob_key: given.blobKey, bytes: given.bytes, sha256: given.sha256, claimed_until: null }),
)

export const completeUpload = async (
  tx: Transaction,
  {
    capBytes = 0,
    file: { blobKey, bytes, sha256 },
    token,
    uploadId: id,
  }: Parameters<UploadStore["Service"]["completeUpload"]>[0],
): Promise<FencedOutcome | "UploadsFull"> => {
  const held = capBytes > 0 ? await lockedUpload(tx, id) : undefined
  if (held !== undefined && holdsTransfer(held, token)) {
    const stored = await lockedBytes(tx, held.projectId, capBytes)
    if (exceedsCap(stored, bytes, capBytes)) return "UploadsFull"
  }
  if ((await tx.run(receive, { id, token, blobKey, bytes, sha256 })) === 1) return "Written"
  const upload = await findUpload(tx, id)
  return upload !== undefined && isRepeatedReceipt(upload, blobKey) ? "Written" : "LeaseLost"
}

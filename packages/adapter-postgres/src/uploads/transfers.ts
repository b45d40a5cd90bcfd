import {
  exceedsCap,
  holdsTransfer,
  isRepeatedGivingUp,
  isRepeatedReceipt,
  judgeTransfer,
  type Upload,
  type UploadId,
} from "@kiln/core/domain"
import type { ClaimUploadOutcome, FencedOutcome, NewTransfer, TransferRef, UploadStore } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"
import { findUpload, lockUploads } from "./uploadRow.ts"
import { lockedBytes, lockedKept } from "./createUploads.ts"

/**
 * Selects the upload while the transfer with this token may still commit: no other transfer has begun, and it has not ended. As
 * with jobs, an expired lease alone does not end it.
 */
const transferOf = ({ id, token }: Given<{ id: UploadId; token: number }>) =>
  query
    .updateTable("uploads")
    .where("id", "=", id)
    .where("token", "=", token)
    .where("claimed_until", "is not", null)
    .where("erased", "=", false)

/** Locks the upload until the transaction ends and returns it. Read after the lock, so it is what was committed last. */
const lockedUpload = async (tx: Transaction, id: UploadId): Promise<Upload | undefined> => {
  const [, upload] = await Promise.all([tx.batch(lockUploads, [{ id }], {}), findUpload(tx, id)])
  return upload
}

/** Writes a new token, which is part of the blob's key, so a stale transfer cannot overwrite the file. Only for the upload as it was read. */
const beginTransfer = statement(
  (
    given: Given<{
      id: UploadId
      fromToken: number
      token: number
      claimedUntil: number | null
      transfers: number
      reservedBytes: number
    }>,
  ) =>
    query
      .updateTable("uploads")
      .set({
        token: given.token,
        claimed_until: given.claimedUntil,
        transfers: given.transfers,
        reserved_bytes: given.reservedBytes,
      })
      .where("id", "=", given.id)
      .where("token", "=", given.fromToken)
      .where("blob_key", "is", null)
      .where("erased", "=", false),
)

export const claimUpload = async (tx: Transaction, transfer: NewTransfer): Promise<ClaimUploadOutcome> => {
  const upload = await lockedUpload(tx, transfer.uploadId)
  const stored = upload === undefined ? 0 : await lockedBytes(tx, upload.projectId, transfer.capBytes)
  const { bytes: reservedBytes = 0, capBytes: storageCap = 0 } = transfer.storage ?? {}
  const kept =
    upload === undefined || storageCap === 0
      ? { uploads: 0, files: 0 }
      : await lockedKept(tx, upload.projectId, upload.mode)
  const outcome = judgeTransfer(transfer, upload, stored, kept, tx.now)
  if (outcome._tag !== "Claimed") return outcome
  const { id, claimedUntil, token, transfers } = outcome.upload
  if ((await tx.run(beginTransfer, { id, fromToken: token - 1, token, claimedUntil, transfers, reservedBytes })) !== 1)
    throw new TypeError(`${id} changed while its transfer began`)
  return outcome
}

const moveLease = statement((given: Given<{ id: UploadId; token: number; claimedUntil: number }>) =>
  transferOf(given).set({ claimed_until: given.claimedUntil }),
)

export const extendUpload = async (
  tx: Transaction,
  { leaseDurationMs, token, uploadId: id }: TransferRef & { readonly leaseDurationMs: number },
): Promise<FencedOutcome> => {
  const claimedUntil = tx.now + Math.ceil(leaseDurationMs)
  return (await tx.run(moveLease, { id, token, claimedUntil })) === 1 ? "Written" : "LeaseLost"
}

/** Writes the file and ends the transfer in one update. */
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

const endTransfer = statement((given: Given<{ id: UploadId; token: number }>) =>
  transferOf(given).set({ claimed_until: null }),
)

/** Ends the transfer; it counts, but another may begin. */
export const releaseUpload = async (tx: Transaction, { token, uploadId: id }: TransferRef): Promise<FencedOutcome> => {
  if ((await tx.run(endTransfer, { id, token })) === 1) return "Written"
  const upload = await findUpload(tx, id)
  return upload !== undefined && isRepeatedGivingUp(upload, token) ? "Written" : "LeaseLost"
}

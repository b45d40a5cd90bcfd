import type { Upload, UploadId } from "@kiln/core/domain"
import type { Transaction } from "../Session.ts"
import { type Given, query } from "../Statement.ts"
import { lockUploads } from "../UploadRow.ts"
import { findUpload } from "./findUpload.ts"

/**
 * The upload, as long as the transfer begun with this token may still commit: nobody took over or
 * ended it. As with jobs, a lapsed lease alone loses nothing; what decides is who came in between.
 */
export const transferOf = ({ id, token }: Given<{ id: UploadId; token: number }>) =>
  query
    .updateTable("uploads")
    .where("id", "=", id)
    .where("token", "=", token)
    .where("claimed_until", "is not", null)
    .where("erased", "=", false)

/** The upload as it is, and as it stays until this transaction ends. Read after the lock, so that it is what was committed last. */
export const lockedUpload = async (tx: Transaction, id: UploadId): Promise<Upload | undefined> => {
  const [, upload] = await Promise.all([tx.batch(lockUploads, [{ id }], {}), findUpload(tx, id)])
  return upload
}

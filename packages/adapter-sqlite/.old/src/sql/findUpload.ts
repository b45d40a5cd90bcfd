import type { Upload, UploadId } from "@kiln/core/domain"
import type { Transaction } from "../Transaction.ts"
import { uploadById, uploadOf } from "../UploadRow.ts"

/** By id alone: the signed URL is the authorization. */
export const findUpload = (tx: Transaction, id: UploadId): Upload | undefined => {
  const row = tx.get(uploadById, { id })
  return row && uploadOf(row)
}

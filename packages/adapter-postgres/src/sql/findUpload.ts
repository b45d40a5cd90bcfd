import type { Upload, UploadId } from "@kiln/core/domain"
import type { Session } from "../Session.ts"
import { uploadById, uploadOf } from "../UploadRow.ts"

/** By id alone: the signed URL is the authorization. */
export const findUpload = async (session: Session, id: UploadId): Promise<Upload | undefined> => {
  const row = await session.get(uploadById, { id })
  return row && uploadOf(row)
}

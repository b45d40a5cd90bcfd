import type { UploadId } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** The upload, if this blob is its file or may still become it. */
const uploadNaming = statement((given: Given<{ id: UploadId; blobKey: string; token: number }>) =>
  query
    .selectFrom("uploads")
    .select("seq")
    .where("id", "=", given.id)
    .where("erased", "=", 0)
    .where((where) =>
      where.or([
        where("blob_key", "=", given.blobKey),
        where.and([where("claimed_until", "is not", null), where("token", "=", given.token)]),
      ]),
    ),
)

export const findUploadOrphans = (
  tx: Transaction,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly uploadId: UploadId; readonly token: number }>,
): ReadonlyArray<string> =>
  blobs
    .filter(({ blobKey, token, uploadId: id }) => tx.get(uploadNaming, { id, blobKey, token }) === undefined)
    .map(({ blobKey }) => blobKey)

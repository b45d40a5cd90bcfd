import { type UploadId, uploadOrphanReason } from "@kiln/core/domain"
import type { Orphan } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const transferOfUpload = statement((given: Given<{ id: UploadId }>) =>
  query
    .selectFrom("uploads")
    .select(["erased", "token", "claimed_until as claimedUntil", "blob_key as blobKey"])
    .where("id", "=", given.id),
)

/** The rule is the domain's: `uploadOrphanReason`. */
export const findUploadOrphans = (
  tx: Transaction,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly uploadId: UploadId; readonly token: number }>,
): ReadonlyArray<Orphan> =>
  blobs.flatMap(({ blobKey, token, uploadId: id }) => {
    const row = tx.get(transferOfUpload, { id })
    const upload = row && {
      erased: row.erased === 1,
      token: row.token,
      inTransfer: row.claimedUntil !== null,
      blobKey: row.blobKey,
    }
    const reason = uploadOrphanReason(upload, { blobKey, token })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })

import { type UploadId, uploadOrphanReason } from "@kiln/core/domain"
import type { Orphan } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

const facts = batchStatement<
  { blobKey: string; uploadId: UploadId; token: number },
  {},
  {
    readonly itemKey: string
    readonly itemToken: number
    readonly erased: boolean | null
    readonly token: number | null
    readonly claimedUntil: number | null
    readonly blobKey: string | null
  }
>({ blobKey: "text", uploadId: "text", token: "bigint" }, (item) =>
  query
    .selectFrom(item)
    .leftJoin("uploads", "uploads.id", "item.uploadId")
    .select([
      "item.blobKey as itemKey",
      "item.token as itemToken",
      "uploads.erased",
      "uploads.token",
      "uploads.claimed_until as claimedUntil",
      "uploads.blob_key as blobKey",
    ])
    .orderBy("item.ord"),
)

/** The rule is the domain's: `uploadOrphanReason`. */
export const findUploadOrphans = async (
  session: Session,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly uploadId: UploadId; readonly token: number }>,
): Promise<ReadonlyArray<Orphan>> =>
  (await session.batch(facts, blobs, {})).flatMap(({ blobKey, claimedUntil, erased, itemKey, itemToken, token }) => {
    const upload =
      erased === null || token === null ? undefined : { erased, token, inTransfer: claimedUntil !== null, blobKey }
    const reason = uploadOrphanReason(upload, { blobKey: itemKey, token: itemToken })
    return reason === undefined ? [] : [{ blobKey: itemKey, reason }]
  })

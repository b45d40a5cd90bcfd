import type { UploadId } from "@kiln/core/domain"
import type { Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

/** Those that are no upload's file and cannot become it any more. */
const orphans = batchStatement<
  { blobKey: string; uploadId: UploadId; token: number },
  {},
  { readonly blobKey: string }
>({ blobKey: "text", uploadId: "text", token: "bigint" }, (item) =>
  query
    .selectFrom(item)
    .select("item.blobKey")
    .where((where) =>
      where.not(
        where.exists(
          where
            .selectFrom("uploads")
            .select("uploads.seq")
            .whereRef("uploads.id", "=", "item.uploadId")
            .where("uploads.erased", "=", false)
            .where((or) =>
              or.or([
                or("uploads.blob_key", "=", or.ref("item.blobKey")),
                or.and([or("uploads.claimed_until", "is not", null), or("uploads.token", "=", or.ref("item.token"))]),
              ]),
            ),
        ),
      ),
    )
    .orderBy("item.ord"),
)

export const findUploadOrphans = async (
  session: Session,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly uploadId: UploadId; readonly token: number }>,
): Promise<ReadonlyArray<string>> => (await session.batch(orphans, blobs, {})).map(({ blobKey }) => blobKey)

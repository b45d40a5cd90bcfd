import type { RawBuilder } from "kysely"
import type { FileId, UploadId } from "@kiln/core/domain"
import type { NamedBlob } from "@kiln/core/ports"
import { select, type Values } from "./columns.ts"
import type { Program, Sql } from "./Sql.ts"
import { type Given, query, statement } from "./Statement.ts"

/** The position of a listing. */
export interface BlobCursor {
  readonly table: "files" | "uploads"
  readonly seq: number
}

export interface BlobPage {
  readonly blobs: ReadonlyArray<NamedBlob>
  /** `undefined` at the end. */
  readonly next: BlobCursor | undefined
}

/** Files are listed before uploads. */
export const firstBlobs: BlobCursor = { table: "files", seq: 0 }

const uploadsAfter = statement((given: Given<{ readonly seq: number; readonly limit: number }>) =>
  query
    .selectFrom("uploads")
    .select(select("uploads", "seq", "id", "blob_key", "bytes", "sha256"))
    .where("seq", ">", given.seq)
    .where("blob_key", "is not", null)
    .where("erased", "=", false)
    .orderBy("seq")
    .limit(given.limit),
)

const uploadNaming = statement((given: Given<Values<"uploads", "id"> & { readonly blobKey: string }>) =>
  query
    .selectFrom("uploads")
    .select("seq")
    .where("id", "=", given.id)
    .where("blob_key", "=", given.blobKey)
    .where("erased", "=", false),
)

const isUpload = (id: FileId | UploadId): id is UploadId => id.startsWith("upl_")

/**
 * The blobs that rows name. The ends of jobs are in different tables: `isReadable` is whether callers can still read the file of a row
 * of `files`, `isKept` whether its job still has its data.
 */
export const namedBlobs = (isReadable: RawBuilder<boolean>, isKept: RawBuilder<boolean>) => {
  const filesAfter = statement((given: Given<{ readonly seq: number; readonly limit: number }>) =>
    query
      .selectFrom("files")
      .select(select("files", "seq", "id", "blob_key", "bytes", "sha256"))
      .where("files.seq", ">", given.seq)
      .where(isReadable)
      .orderBy("files.seq")
      .limit(given.limit),
  )
  const fileNaming = statement((given: Given<Values<"files", "id" | "blob_key">>) =>
    query
      .selectFrom("files")
      .select("files.seq")
      .where("files.id", "=", given.id)
      .where("files.blob_key", "=", given.blobKey)
      .where(isKept),
  )
  /** Lists one page. */
  function* listNamedBlobs(tx: Sql, { seq, table }: BlobCursor, limit: number): Program<BlobPage> {
    const rows =
      table === "files" ? yield* tx.all(filesAfter, { seq, limit }) : yield* tx.all(uploadsAfter, { seq, limit })
    const last = rows.at(-1)
    const full = last !== undefined && rows.length === limit
    return {
      blobs: rows.flatMap(({ blobKey, bytes, id, sha256 }) =>
        blobKey === null || bytes === null || sha256 === null ? [] : [{ id, blobKey, bytes, sha256 }],
      ),
      next: full ? { table, seq: last.seq } : table === "files" ? { table: "uploads", seq: 0 } : undefined,
    }
  }
  /** Returns whether a row still names the blob, which may have been erased since it was listed. */
  function* isNamed(tx: Sql, { blobKey, id }: NamedBlob): Program<boolean> {
    const row = isUpload(id) ? yield* tx.get(uploadNaming, { id, blobKey }) : yield* tx.get(fileNaming, { id, blobKey })
    return row !== undefined
  }
  return { isNamed, listNamedBlobs }
}

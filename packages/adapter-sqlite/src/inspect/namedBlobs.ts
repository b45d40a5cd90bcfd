import type { NamedBlob } from "@kiln/core/ports"
import type { FileId, UploadId } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

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

/** Only files that callers can still read. */
const filesAfter = statement((given: Given<{ seq: number; limit: number }>) =>
  query
    .selectFrom("files")
    .innerJoin("jobs", "jobs.seq", "files.job_seq")
    .select(["files.seq", "files.id", "files.blob_key as blobKey", "files.bytes", "files.sha256"])
    .where("files.seq", ">", given.seq)
    .where("jobs.status", "=", "done")
    .where("jobs.retained", "=", "kept")
    .orderBy("files.seq")
    .limit(given.limit),
)

const uploadsAfter = statement((given: Given<{ seq: number; limit: number }>) =>
  query
    .selectFrom("uploads")
    .select(["seq", "id", "blob_key as blobKey", "bytes", "sha256"])
    .where("seq", ">", given.seq)
    .where("blob_key", "is not", null)
    .where("erased", "=", 0)
    .orderBy("seq")
    .limit(given.limit),
)

/** Files are listed before uploads. */
export const firstBlobs: BlobCursor = { table: "files", seq: 0 }

/** Lists one page. */
export const listNamedBlobs = (tx: Transaction, { seq, table }: BlobCursor, limit: number): BlobPage => {
  const rows = table === "files" ? tx.all(filesAfter, { seq, limit }) : tx.all(uploadsAfter, { seq, limit })
  const last = rows.at(-1)
  const full = last !== undefined && rows.length === limit
  return {
    blobs: rows.flatMap(({ blobKey, bytes, id, sha256 }) =>
      blobKey === null || bytes === null || sha256 === null ? [] : [{ id, blobKey, bytes, sha256 }],
    ),
    next: full ? { table, seq: last.seq } : table === "files" ? { table: "uploads", seq: 0 } : undefined,
  }
}

const fileNaming = statement((given: Given<{ id: FileId; blobKey: string }>) =>
  query
    .selectFrom("files")
    .innerJoin("jobs", "jobs.seq", "files.job_seq")
    .select("files.seq")
    .where("files.id", "=", given.id)
    .where("files.blob_key", "=", given.blobKey)
    .where("jobs.retained", "=", "kept"),
)

const uploadNaming = statement((given: Given<{ id: UploadId; blobKey: string }>) =>
  query
    .selectFrom("uploads")
    .select("seq")
    .where("id", "=", given.id)
    .where("blob_key", "=", given.blobKey)
    .where("erased", "=", 0),
)

const isUpload = (id: FileId | UploadId): id is UploadId => id.startsWith("upl_")

/** Returns whether a row still names the blob, which may have been erased since it was listed. */
export const isNamed = (tx: Transaction, { blobKey, id }: NamedBlob): boolean =>
  (isUpload(id) ? tx.get(uploadNaming, { id, blobKey }) : tx.get(fileNaming, { id, blobKey })) !== undefined

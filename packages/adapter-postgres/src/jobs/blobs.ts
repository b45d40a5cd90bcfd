import { type FileId, type JobId, jobOrphanReason, type UploadId } from "@kiln/core/domain"
import type { NamedBlob, Orphan } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { batchStatement, type Given, query, statement } from "../Statement.ts"

/** A job's token is in `queue` while it is unfinished, and in `results` afterwards. */
const facts = batchStatement<
  { blobKey: string; jobId: JobId; token: number },
  {},
  {
    readonly blobKey: string
    readonly token: number
    readonly seq: number | null
    readonly queueToken: number | null
    readonly finalToken: number | null
    readonly fileSeq: number | null
  }
>({ blobKey: "text", jobId: "text", token: "bigint" }, (item) =>
  query
    .selectFrom(item)
    .leftJoin("jobs", "jobs.id", "item.jobId")
    .leftJoin("queue", "queue.id", "jobs.id")
    .leftJoin("results", "results.job_seq", "jobs.seq")
    .leftJoin("files", (on) => on.onRef("files.job_seq", "=", "jobs.seq").onRef("files.blob_key", "=", "item.blobKey"))
    .select([
      "item.blobKey",
      "item.token",
      "jobs.seq",
      "queue.token as queueToken",
      "results.token as finalToken",
      "files.seq as fileSeq",
    ])
    .orderBy("item.ord"),
)

/** Applies the domain's rule, `jobOrphanReason`. */
export const findOrphans = async (
  session: Session,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): Promise<ReadonlyArray<Orphan>> =>
  (await session.batch(facts, blobs, {})).flatMap(({ blobKey, fileSeq, finalToken, queueToken, seq, token }) => {
    const job = seq === null ? undefined : { finished: queueToken === null, token: queueToken ?? finalToken ?? 0 }
    const reason = jobOrphanReason(job, { token, named: fileSeq !== null })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })

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

/** Only files that can still be read. */
const filesAfter = statement((given: Given<{ seq: number; limit: number }>) =>
  query
    .selectFrom("files")
    .innerJoin("results", "results.job_seq", "files.job_seq")
    .select(["files.seq", "files.id", "files.blob_key as blobKey", "files.bytes", "files.sha256"])
    .where("files.seq", ">", given.seq)
    .where("results.status", "=", "done")
    .where("results.retained", "=", "kept")
    .orderBy("files.seq")
    .limit(given.limit),
)

const uploadsAfter = statement((given: Given<{ seq: number; limit: number }>) =>
  query
    .selectFrom("uploads")
    .select(["seq", "id", "blob_key as blobKey", "bytes", "sha256"])
    .where("seq", ">", given.seq)
    .where("blob_key", "is not", null)
    .where("erased", "=", false)
    .orderBy("seq")
    .limit(given.limit),
)

/** Files come before uploads. */
export const firstBlobs: BlobCursor = { table: "files", seq: 0 }

/** One page. */
export const listNamedBlobs = async (
  session: Session,
  { seq, table }: BlobCursor,
  limit: number,
): Promise<BlobPage> => {
  const rows =
    table === "files" ? await session.all(filesAfter, { seq, limit }) : await session.all(uploadsAfter, { seq, limit })
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
    .innerJoin("results", "results.job_seq", "files.job_seq")
    .select("files.seq")
    .where("files.id", "=", given.id)
    .where("files.blob_key", "=", given.blobKey)
    .where("results.retained", "=", "kept"),
)

const uploadNaming = statement((given: Given<{ id: UploadId; blobKey: string }>) =>
  query
    .selectFrom("uploads")
    .select("seq")
    .where("id", "=", given.id)
    .where("blob_key", "=", given.blobKey)
    .where("erased", "=", false),
)

const isUpload = (id: FileId | UploadId): id is UploadId => id.startsWith("upl_")

/** Whether a row still names the blob: it may have been erased since it was listed. */
export const isNamed = async (session: Session, { blobKey, id }: NamedBlob): Promise<boolean> => {
  const row = isUpload(id)
    ? await session.get(uploadNaming, { id, blobKey })
    : await session.get(fileNaming, { id, blobKey })
  return row !== undefined
}

import type { FileId } from "@kiln/core/domain"
import type { StoredFile } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** A file has a row exactly while its job is done and its data is kept; the job is asked all the same. */
const fileById = statement((given: Given<{ fileId: FileId }>) =>
  query
    .selectFrom("files")
    .innerJoin("jobs", "jobs.seq", "files.job_seq")
    .select([
      "files.id",
      "files.name",
      "files.blob_key as blobKey",
      "files.media_type as mediaType",
      "files.bytes",
      "files.sha256",
      "jobs.id as jobId",
    ])
    .where("files.id", "=", given.fileId)
    .where("jobs.status", "=", "done")
    .where("jobs.retained", "=", "kept"),
)

export const findFile = (tx: Transaction, fileId: FileId): StoredFile | undefined => tx.get(fileById, { fileId })

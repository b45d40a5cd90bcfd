import { sql } from "kysely"
import type { JobMode, KeyId, ProjectId, Upload, UploadId } from "@kiln/core/domain"
import { batchStatement, type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Session } from "../Session.ts"

/** The job that consumed an upload is found by its unique `upload_id`. */
const selectUploads = query
  .selectFrom("uploads")
  .leftJoin("jobs", "jobs.upload_id", "uploads.id")
  .select([
    "uploads.id",
    "uploads.project_id as projectId",
    "uploads.key_id as keyId",
    "uploads.mode",
    "uploads.format",
    "uploads.declared_seconds as declaredSeconds",
    "uploads.created_at as createdAt",
    "uploads.expires_at as expiresAt",
    "uploads.usable_until as usableUntil",
    "uploads.token",
    "uploads.claimed_until as claimedUntil",
    "uploads.transfers",
    "uploads.blob_key as blobKey",
    "uploads.bytes",
    "uploads.sha256",
    "uploads.erased",
    "jobs.id as jobId",
  ])

/**
 * Whether no job has consumed this upload. OFFSET 0: one look into the index of `jobs.upload_id` for each upload, or the planner may hash all
 * jobs to answer for a few.
 */
export const isUnused = sql<boolean>`not exists (select from "kiln".jobs where jobs.upload_id = uploads.id offset 0)`

export const uploadById = statement((given: Given<{ id: UploadId }>) =>
  selectUploads.where("uploads.id", "=", given.id),
)

/** The uploads that these jobs consumed. */
export const uploadsOfJobs = batchStatement<{ seq: number }, {}, RowOf<typeof uploadById>>({ seq: "bigint" }, (item) =>
  selectUploads.innerJoin(item, (join) => join.onRef("item.seq", "=", "jobs.seq")),
)

/** Uploads of another key, project or mode count as unknown. */
export const ownUploads = batchStatement<
  { id: UploadId; projectId: ProjectId; keyId: KeyId; mode: JobMode },
  {},
  RowOf<typeof uploadById>
>({ id: "text", projectId: "text", keyId: "text", mode: "text" }, (item) =>
  selectUploads.innerJoin(item, (join) =>
    join
      .onRef("item.id", "=", "uploads.id")
      .onRef("item.projectId", "=", "uploads.project_id")
      .onRef("item.keyId", "=", "uploads.key_id")
      .onRef("item.mode", "=", "uploads.mode"),
  ),
)

export const uploadOf = (row: RowOf<typeof uploadById>): Upload => {
  const { blobKey, bytes, erased, sha256, ...upload } = row
  const file = blobKey === null || bytes === null || sha256 === null ? null : { blobKey, bytes, sha256 }
  return { ...upload, file, erased }
}

/**
 * Locks uploads until the transaction ends, in the order of their ids to avoid deadlocks. The next statement reads the rows, so
 * it sees what was committed while this one waited.
 */
export const lockUploads = batchStatement<{ id: UploadId }, {}, { readonly id: UploadId }>({ id: "text" }, (item) =>
  query
    .selectFrom("uploads")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "uploads.id"))
    .select("uploads.id")
    .orderBy("uploads.id")
    .forUpdate("uploads"),
)

/** By id alone: the signed URL is the authorization. */
export const findUpload = async (session: Session, id: UploadId): Promise<Upload | undefined> => {
  const row = await session.get(uploadById, { id })
  return row && uploadOf(row)
}

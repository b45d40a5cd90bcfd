import type { JobMode, KeyId, ProjectId, Upload, UploadId } from "@kiln/core/domain"
import { type Given, query, type RowOf, statement } from "./Statement.ts"

/** Which job consumed it is read through the job's unique `upload_id`. */
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

export const uploadById = statement((given: Given<{ id: UploadId }>) =>
  selectUploads.where("uploads.id", "=", given.id),
)

/** Another key's, project's or mode's upload is as unknown as one that never was. */
export const ownUpload = statement(
  (given: Given<{ id: UploadId; projectId: ProjectId; keyId: KeyId; mode: JobMode }>) =>
    selectUploads
      .where("uploads.id", "=", given.id)
      .where("uploads.project_id", "=", given.projectId)
      .where("uploads.key_id", "=", given.keyId)
      .where("uploads.mode", "=", given.mode),
)

export const uploadOf = (row: RowOf<typeof uploadById>): Upload => {
  const { blobKey, bytes, erased, sha256, ...upload } = row
  const file = blobKey === null || bytes === null || sha256 === null ? null : { blobKey, bytes, sha256 }
  return { ...upload, file, erased: erased === 1 }
}

import type { JobMode, KeyId, ProjectId, UploadId } from "@kiln/core/domain"
import { selectUploads as selected } from "@kiln/sql-store"
import { batchStatement, inDefaultSchema, integer, query, text } from "../Statement.ts"

const selectUploads = selected.withPlugin(inDefaultSchema)

/** The uploads that these jobs consumed. */
export const uploadsOfJobs = batchStatement({ seq: integer() }, (item) =>
  selectUploads.innerJoin(item, (join) => join.onRef("item.seq", "=", "jobs.seq")),
)

/** Uploads of another key, project or mode count as unknown. */
export const ownUploads = batchStatement(
  { id: text<UploadId>(), projectId: text<ProjectId>(), keyId: text<KeyId>(), mode: text<JobMode>() },
  (item) =>
    selectUploads.innerJoin(item, (join) =>
      join
        .onRef("item.id", "=", "uploads.id")
        .onRef("item.projectId", "=", "uploads.project_id")
        .onRef("item.keyId", "=", "uploads.key_id")
        .onRef("item.mode", "=", "uploads.mode"),
    ),
)

/**
 * Locks uploads until the transaction ends, in the order of their ids to avoid deadlocks. The next statement reads the rows, so
 * it sees what was committed while this one waited.
 */
export const lockUploads = batchStatement({ id: text<UploadId>() }, (item) =>
  query
    .selectFrom("uploads")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "uploads.id"))
    .select("uploads.id")
    .orderBy("uploads.id")
    .forUpdate("uploads"),
)

export { uploadOf } from "@kiln/sql-store"

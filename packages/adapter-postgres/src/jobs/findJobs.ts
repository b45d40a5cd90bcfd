import type { FileId, Job, JobId, KeyId, Principal } from "@kiln/core/domain"
import type { StoredFile } from "@kiln/core/ports"
import { jobOf, jobsByOwner } from "./jobRow.ts"
import { boundKeys } from "./replaceJobs.ts"
import type { Session } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

/** Jobs, and the callers who ask for them. */
export type OwnedJobs = ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>

/** The parameters of a statement that selects jobs of their owners. */
export const ownedBy = (items: OwnedJobs) =>
  items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => ({ id, keyId, mode, projectId }))

/** Reads jobs and their files in one statement, so from one snapshot. */
export const findJobs = async (session: Session, items: OwnedJobs): Promise<ReadonlyArray<Job | undefined>> => {
  const rows = new Map((await session.batch(jobsByOwner, ownedBy(items))).map((row) => [row.ord, row]))
  return items.map((_, index) => {
    const row = rows.get(index + 1)
    return row && jobOf(row)
  })
}

/** Uses the unique index that binds a key to one job, and the keys of requests that were replaced. */
export const findByIdempotencyKey = async (
  session: Session,
  keyId: KeyId,
  idempotencyKey: string,
): Promise<Job | undefined> => {
  const [bound] = await boundKeys(session, [{ keyId, idempotencyKey }])
  return bound?.job
}

/** A file has a row only while its job is done and its data is kept; the result is checked nevertheless. */
const fileById = statement((given: Given<{ fileId: FileId }>) =>
  query
    .selectFrom("files")
    .innerJoin("results", "results.job_seq", "files.job_seq")
    .select([
      "files.id",
      "files.name",
      "files.blob_key as blobKey",
      "files.media_type as mediaType",
      "files.bytes",
      "files.sha256",
      "results.job_id as jobId",
    ])
    .where("files.id", "=", given.fileId)
    .where("results.status", "=", "done")
    .where("results.retained", "=", "kept"),
)

export const findFile = (session: Session, fileId: FileId): Promise<StoredFile | undefined> =>
  session.get(fileById, { fileId })

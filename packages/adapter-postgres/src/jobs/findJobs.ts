import {
  type FileId,
  type Job,
  type JobId,
  type KeyId,
  type PolledJob,
  polledJob,
  type Principal,
} from "@kiln/core/domain"
import type { StoredFile } from "@kiln/core/ports"
import { jobOf, jobsByOwner } from "./jobRow.ts"
import { boundKeys } from "./replaceJobs.ts"
import type { Session } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

type Items = ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>

/** Reads jobs and their files in one statement, so from one snapshot. */
export const findJobs = async (session: Session, items: Items): Promise<ReadonlyArray<Job | undefined>> => {
  const owned = items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => ({ id, keyId, mode, projectId }))
  const rows = new Map((await session.batch(jobsByOwner, owned, {})).map((row) => [row.ord, row]))
  return items.map((_, index) => {
    const row = rows.get(index + 1)
    return row && jobOf(row)
  })
}

/** The round trip costs more than the columns that a poll does not show. */
export const pollJobs = async (session: Session, items: Items): Promise<ReadonlyArray<PolledJob | undefined>> =>
  (await findJobs(session, items)).map((job) => job && polledJob(job))

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

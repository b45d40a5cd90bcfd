import { type RawBuilder, sql } from "kysely"
import { jsonArrayFrom } from "kysely/helpers/postgres"
import type { FileId, Job, JobId, JobStatus, KeyId, PolledJob, Principal } from "@kiln/core/domain"
import { jobOrphanReason, progressStep } from "@kiln/core/rules"
import type { Orphan, StoredFile } from "@kiln/core/ports"
import { decodePolled, namedBlobs } from "@kiln/sql-store"
import { select } from "../columns.ts"
import { batchStatement, type Given, integer, query, statement, text } from "../Statement.ts"
import type { Session } from "../connection/Session.ts"
import { either, isOfOwner, jobOf, jobsByOwner, owned, retained } from "./jobRow.ts"
import { boundKeys } from "./replaceJobs.ts"

/** Jobs, and the callers who ask for them. */
export type OwnedJobs = ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>

/** The parameters of a statement that selects jobs of their owners. */
const ownedBy = (items: OwnedJobs) =>
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
    .select(select("files", "id", "name", "blob_key", "media_type", "bytes", "sha256"))
    .select("results.job_id as jobId")
    .where("files.id", "=", given.fileId)
    .where("results.status", "=", "done")
    .where("results.retained", "=", "kept"),
)

export const findFile = (session: Session, fileId: FileId): Promise<StoredFile | undefined> =>
  session.get(fileById, { fileId })

/** A job's token is in `queue` while it is unfinished, and in `results` afterwards. */
const facts = batchStatement({ blobKey: text(), jobId: text<JobId>(), token: integer() }, (item) =>
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
  (await session.batch(facts, blobs)).flatMap(({ blobKey, fileSeq, finalToken, queueToken, seq, token }) => {
    const job = seq === null ? undefined : { finished: queueToken === null, token: queueToken ?? finalToken ?? 0 }
    const reason = jobOrphanReason(job, { token, named: fileSeq !== null })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })

const resultOfFile = (condition: RawBuilder<boolean>) =>
  sql<boolean>`exists (select from "kiln".results as result
    where result.job_seq = files.job_seq and result.retained = 'kept' and ${condition})`

/** Files that callers can still read are those of done jobs. */
export const named = namedBlobs(resultOfFile(sql<boolean>`result.status = 'done'`), resultOfFile(sql<boolean>`true`))

/** The parts of a job that a poll shows, only to its owner. Everything else of a row costs this process more than the server. */
const polledByOwner = batchStatement(owned, (item) =>
  query
    .selectFrom("jobs")
    .leftJoin("queue", "queue.id", "jobs.id")
    .leftJoin("results", "results.job_seq", "jobs.seq")
    .leftJoin("prices", "prices.id", "jobs.price_id")
    .innerJoin(item, (join) => join.on(isOfOwner))
    .select(["item.ord", "jobs.id", "jobs.mode", "jobs.kind", "prices.currency", "results.output", "results.charge"])
    .select(["results.error_code as errorCode", "results.warning_code as warningCode"])
    .select([
      either<JobStatus>("status").as("status"),
      either<number>("attempts").as("attempts"),
      retained.as("retained"),
    ])
    .select((from) => [
      jsonArrayFrom(
        from
          .selectFrom("files")
          .select(["files.id", "files.name"])
          .whereRef("files.job_seq", "=", "jobs.seq")
          .orderBy("files.seq"),
      ).as("files"),
      from
        .case()
        .when("queue.status", "=", "processing")
        .then(
          from
            .selectFrom("checkpoints")
            .select("value")
            .whereRef("checkpoints.job_id", "=", "jobs.id")
            .where("step", "=", progressStep),
        )
        .end()
        .as("progress"),
    ]),
)

/** Reads jobs and their files in one statement, so from one snapshot. */
export const pollJobs = async (session: Session, items: OwnedJobs): Promise<ReadonlyArray<PolledJob | undefined>> => {
  const rows = new Map((await session.batch(polledByOwner, ownedBy(items))).map((row) => [row.ord, row]))
  return items.map((_, index) => {
    const row = rows.get(index + 1)
    return row && decodePolled(row, row.id, row.mode, row.retained === "kept" ? row.files : [])
  })
}

import { type Selectable, sql } from "kysely"
import { type FileId, isFinished, type Job, type JobId, type PolledJob, type Principal } from "@kiln/core/domain"
import { jobOrphanReason, progressStep } from "@kiln/core/rules"
import type { Orphan, StoredFile } from "@kiln/core/ports"
import { decodePolled } from "@kiln/sql-store"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { type JsonText, select, type Tables, type Values } from "../columns.ts"
import { hasFiles, jobByOwner, jobOf } from "./JobRow.ts"

export const findJobs = (
  tx: Transaction,
  items: ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>,
): ReadonlyArray<Job | undefined> =>
  items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => {
    const row = tx.get(jobByOwner, { id, projectId, keyId, mode })
    return row && jobOf(tx, row)
  })

const fileById = statement((given: Given<Values<"files", "id">>) =>
  query
    .selectFrom("files")
    .innerJoin("jobs", "jobs.seq", "files.job_seq")
    .select(select("files", "id", "name", "blob_key", "media_type", "bytes", "sha256"))
    .select("jobs.id as jobId")
    .where("files.id", "=", given.id)
    .where("jobs.status", "=", "done")
    .where("jobs.retained", "=", "kept"),
)

export const findFile = (tx: Transaction, id: FileId): StoredFile | undefined => tx.get(fileById, { id })

const claimOfJob = statement((given: Given<Values<"jobs", "id">>) =>
  query.selectFrom("jobs").select(["seq", "status", "token"]).where("id", "=", given.id),
)

const fileOfJob = statement((given: Given<Values<"files", "job_seq" | "blob_key">>) =>
  query.selectFrom("files").select("seq").where("job_seq", "=", given.jobSeq).where("blob_key", "=", given.blobKey),
)

/** The rule is `jobOrphanReason`. */
export const findOrphans = (
  tx: Transaction,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): ReadonlyArray<Orphan> =>
  blobs.flatMap(({ blobKey, jobId: id, token }) => {
    const job = tx.get(claimOfJob, { id })
    const finished = job !== undefined && isFinished(job)
    const named = finished && tx.get(fileOfJob, { jobSeq: job.seq, blobKey }) !== undefined
    const reason = jobOrphanReason(job && { finished, token: job.token }, { token, named })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })

/** SQLite would scan the table if `ANALYZE` had run while it was small. */
const filesByJob = sql<Selectable<Tables["files"]>>`${sql.table("files")}`.as<"files">(
  sql`${sql.table("files")} indexed by sqlite_autoindex_kiln_files_2`,
)

/** Looked up for jobs in progress only. */
const progress = sql<JsonText | null>`CASE WHEN ${sql.ref("jobs.status")} = 'processing' THEN (
  SELECT value FROM ${sql.table("checkpoints")} WHERE job_seq = ${sql.ref("jobs.seq")} AND step = ${sql.lit(progressStep)}) END`

/**
 * The parts of a job that a poll shows, only to its owner. Has a row for each file, so that one statement reads everything from one
 * snapshot. The rows are not sorted: that would take SQLite a third of the time.
 */
export const polledByOwner = statement((given: Given<Values<"jobs", "id" | "project_id" | "key_id" | "mode">>) =>
  query
    .selectFrom("jobs")
    .leftJoin("prices", "prices.id", "jobs.price_id")
    .leftJoin(filesByJob, "files.job_seq", "jobs.seq")
    .select(select("jobs", "kind", "status", "retained", "output", "error_code", "warning_code", "charge", "attempts"))
    .select(progress.as("progress"))
    .select(["prices.currency", "files.seq as fileSeq", "files.id as fileId", "files.name as fileName"])
    .where("jobs.id", "=", given.id)
    .where("jobs.project_id", "=", given.projectId)
    .where("jobs.key_id", "=", given.keyId)
    .where("jobs.mode", "=", given.mode),
)

type PolledRow = RowOf<typeof polledByOwner>

const noFiles: PolledJob["files"] = []

/** Returns the file of a row; a job without files has one row without a file. */
const fileOf = ({ fileId: id, fileName: name }: PolledRow): PolledJob["files"] =>
  id === null || name === null ? noFiles : [{ id, name }]

const filesOf = (rows: ReadonlyArray<PolledRow>): PolledJob["files"] =>
  rows.toSorted((one, other) => (one.fileSeq ?? 0) - (other.fileSeq ?? 0)).flatMap(fileOf)

/** Reads jobs, each in one statement. Throws `UndecodableRow` if a row is damaged. */
export const pollJobs = (
  tx: Transaction,
  items: ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>,
): ReadonlyArray<PolledJob | undefined> =>
  items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => {
    const rows = tx.all(polledByOwner, { id, projectId, keyId, mode })
    const [row] = rows
    return row && decodePolled(row, id, mode, hasFiles(row) ? filesOf(rows) : noFiles)
  })

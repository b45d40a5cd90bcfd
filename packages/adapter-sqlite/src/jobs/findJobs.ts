import { type FileId, isFinished, type Job, type JobId, jobOrphanReason, type Principal } from "@kiln/core/domain"
import type { Orphan, StoredFile } from "@kiln/core/ports"
import { select, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { jobByOwner, jobOf } from "./JobRow.ts"

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

import { isFinished, type JobId, jobOrphanReason } from "@kiln/core/domain"
import type { Orphan } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const claimOfJob = statement((given: Given<{ jobId: JobId }>) =>
  query.selectFrom("jobs").select(["seq", "status", "token"]).where("id", "=", given.jobId),
)

const fileOfJob = statement((given: Given<{ seq: number; blobKey: string }>) =>
  query.selectFrom("files").select("seq").where("job_seq", "=", given.seq).where("blob_key", "=", given.blobKey),
)

/** The rule is the domain's: `jobOrphanReason`. */
export const findOrphans = (
  tx: Transaction,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): ReadonlyArray<Orphan> =>
  blobs.flatMap(({ blobKey, jobId, token }) => {
    const job = tx.get(claimOfJob, { jobId })
    const finished = job !== undefined && isFinished(job)
    const named = finished && tx.get(fileOfJob, { seq: job.seq, blobKey }) !== undefined
    const reason = jobOrphanReason(job && { finished, token: job.token }, { token, named })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })

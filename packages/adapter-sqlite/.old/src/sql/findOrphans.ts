import { isFinished, type JobId } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const claimOfJob = statement((given: Given<{ jobId: JobId }>) =>
  query.selectFrom("jobs").select(["seq", "status", "token"]).where("id", "=", given.jobId),
)

const fileOfJob = statement((given: Given<{ seq: number; blobKey: string }>) =>
  query.selectFrom("files").select("seq").where("job_seq", "=", given.seq).where("blob_key", "=", given.blobKey),
)

/**
 * A finished job's blob is an orphan unless a file names it; an unfinished one's unless its token is
 * the job's present one. Every end of a claim raises the token, so an older one can never commit.
 */
export const findOrphans = (
  tx: Transaction,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
): ReadonlyArray<string> =>
  blobs
    .filter(({ blobKey, jobId, token }) => {
      const job = tx.get(claimOfJob, { jobId })
      if (job === undefined) return true
      return isFinished(job) ? tx.get(fileOfJob, { seq: job.seq, blobKey }) === undefined : token !== job.token
    })
    .map(({ blobKey }) => blobKey)

import { blobPrefixesOf } from "@kiln/core/domain"
import type { PruneResult } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { blankJob, retentionColumns } from "./blankJob.ts"
import { recordPurges } from "./purges.ts"

/** The longest finished first. Those whose data is gone are elsewhere in the index, so a sweep never meets them again. */
export const keptJobs = statement((given: Given<{ finishedBy: number; limit: number }>) =>
  query
    .selectFrom("jobs")
    .select(retentionColumns)
    .where("retained", "=", "kept")
    .where("finished_at", "<=", given.finishedBy)
    .orderBy("finished_at")
    .orderBy("seq")
    .limit(given.limit),
)

export const expireData = (tx: Transaction, olderThanMs: number, limit: number): PruneResult => {
  const jobs = tx.all(keptJobs, { finishedBy: tx.now - olderThanMs, limit })
  for (const job of jobs) blankJob(tx, job, "expired")
  return { count: jobs.length, purges: recordPurges(tx, jobs.flatMap(blobPrefixesOf)) }
}

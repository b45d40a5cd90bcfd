import { blobPrefixesOf } from "@kiln/core/domain"
import type { PruneResult } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { ago, type Given, query, statement } from "../Statement.ts"
import { blankJobs, retentionColumns } from "./blankJobs.ts"
import { recordPurges } from "./purges.ts"

/**
 * The longest finished first. Those whose data is gone are elsewhere in the index, so a sweep never meets them again.
 * What another sweep has in hand is left to it.
 */
export const keptJobs = statement((given: Given<{ finishedBy: number; limit: number }>) =>
  query
    .selectFrom("jobs")
    .select(retentionColumns)
    .where("retained", "=", "kept")
    .where("finished_at", "<=", given.finishedBy)
    .orderBy("finished_at")
    .orderBy("seq")
    .limit(given.limit)
    .forNoKeyUpdate()
    .skipLocked(),
)

/** Whether one is due, by a look into the same index. */
export const anyKeptJob = statement((given: Given<{ olderThanMs: number }>) =>
  query
    .selectFrom("jobs")
    .select("id")
    .where("retained", "=", "kept")
    .where("finished_at", "<=", ago(given.olderThanMs))
    .orderBy("finished_at")
    .limit(1),
)

export const expireData = async (tx: Transaction, olderThanMs: number, limit: number): Promise<PruneResult> => {
  const jobs = await tx.all(keptJobs, { finishedBy: tx.now - olderThanMs, limit })
  await blankJobs(tx, jobs, "expired")
  return { count: jobs.length, purges: await recordPurges(tx, jobs.flatMap(blobPrefixesOf)) }
}

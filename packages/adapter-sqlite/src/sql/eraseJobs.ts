import { blobPrefixesOf, isFinished, type JobId, type JobMode, type KeyId, type ProjectId } from "@kiln/core/domain"
import type { EraseOutcome, Erasure } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { blankJob, retentionColumns } from "./blankJob.ts"
import { recordPurges, stillDue } from "./purges.ts"

/** Only its owner's; another's is as unknown as one that never was. */
export const ownJob = statement((given: Given<{ id: JobId; projectId: ProjectId; keyId: KeyId; mode: JobMode }>) =>
  query
    .selectFrom("jobs")
    .select(retentionColumns)
    .where("id", "=", given.id)
    .where("project_id", "=", given.projectId)
    .where("key_id", "=", given.keyId)
    .where("mode", "=", given.mode),
)

/**
 * Data that had expired by age is `AlreadyErased` for its first erasure on request: nothing was
 * left to delete. It says `data_deleted` from then on, since that is what its owner asked for.
 */
export const eraseJobs = (tx: Transaction, items: ReadonlyArray<Erasure>): ReadonlyArray<EraseOutcome> =>
  items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => {
    const job = tx.get(ownJob, { id, projectId, keyId, mode })
    if (job === undefined) return { _tag: "NotFound" }
    if (!isFinished(job)) return { _tag: "Unfinished" }
    const prefixes = blobPrefixesOf(job)
    if (job.retained !== "deleted") blankJob(tx, job, "deleted")
    return job.retained === "kept"
      ? { _tag: "Erased", purges: recordPurges(tx, prefixes) }
      : { _tag: "AlreadyErased", purges: stillDue(tx, prefixes) }
  })

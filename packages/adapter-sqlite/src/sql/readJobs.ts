import type { Job, JobId } from "@kiln/core/domain"
import { jobById, jobOf } from "../JobRow.ts"
import type { Transaction } from "../Transaction.ts"

/** On one snapshot, like `findJobs`, but whosever they are: for the operator. */
export const readJobs = (tx: Transaction, jobIds: ReadonlyArray<JobId>): ReadonlyArray<Job | undefined> =>
  jobIds.map((id) => {
    const row = tx.get(jobById, { id })
    return row && jobOf(tx, row)
  })

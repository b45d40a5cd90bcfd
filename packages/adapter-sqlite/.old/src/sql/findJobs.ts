import type { Job, JobId, Principal } from "@kiln/core/domain"
import { jobByOwner, jobOf } from "../JobRow.ts"
import type { Transaction } from "../Transaction.ts"

/** On one snapshot, so that a job is never shown with the files of another moment. */
export const findJobs = (
  tx: Transaction,
  items: ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>,
): ReadonlyArray<Job | undefined> =>
  items.map(({ jobId: id, principal: { keyId, mode, projectId } }) => {
    const row = tx.get(jobByOwner, { id, projectId, keyId, mode })
    return row && jobOf(tx, row)
  })

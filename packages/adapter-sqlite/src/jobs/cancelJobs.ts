import { applyEvent, type JobId } from "@kiln/core/domain"
import type { CancelOutcome } from "@kiln/core/ports"
import type { Transaction } from "../Transaction.ts"
import { stateById, stateOf } from "./JobRow.ts"
import { writeState } from "./writeState.ts"

/** Cancels jobs regardless of owner. A worker that holds one loses its claim, because the token grows. */
export const cancelJobs = (tx: Transaction, jobIds: ReadonlyArray<JobId>): ReadonlyArray<CancelOutcome> =>
  jobIds.map((id) => {
    const job = tx.get(stateById, { id })
    if (job === undefined) return "NotFound"
    const failed = applyEvent(stateOf(job), { event: "canceled" }, tx.now)
    if (failed === undefined) return "AlreadyFinished"
    if (!writeState(tx, job, failed)) throw new TypeError(`${id} cannot be canceled`)
    return "Canceled"
  })

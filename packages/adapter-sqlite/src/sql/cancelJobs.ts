import { applyEvent, type JobId } from "@kiln/core/domain"
import type { CancelOutcome } from "@kiln/core/ports"
import { stateOf } from "../JobRow.ts"
import type { Transaction } from "../Transaction.ts"
import { stateById, writeState } from "./writeState.ts"

/** Of any project, and whoever has them in hand: the raised token is what takes a job out of a worker's. */
export const cancelJobs = (tx: Transaction, jobIds: ReadonlyArray<JobId>): ReadonlyArray<CancelOutcome> =>
  jobIds.map((id) => {
    const job = tx.get(stateById, { id })
    if (job === undefined) return "NotFound"
    const failed = applyEvent(stateOf(job), { event: "canceled" }, tx.now)
    if (failed === undefined) return "AlreadyFinished"
    if (!writeState(tx, job, failed)) throw new TypeError(`${id} cannot be canceled`)
    return "Canceled"
  })

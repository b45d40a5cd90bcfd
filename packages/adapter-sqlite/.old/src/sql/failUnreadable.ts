import { applyEvent, type JobId } from "@kiln/core/domain"
import { stateOf } from "../JobRow.ts"
import type { Transaction } from "../Transaction.ts"
import { stateById, writeState } from "./writeState.ts"

/** The job whose turn it was cannot be read: a damaged row, or a corrupt page. */
export class UnreadableJob extends Error {
  override readonly name = "UnreadableJob"
  readonly jobId: JobId
  constructor(jobId: JobId, cause: unknown) {
    super(`${jobId} cannot be read`, { cause })
    this.jobId = jobId
  }
}

/**
 * Such a job would come back for ever, to every worker, and hold up its lane. It fails without being
 * read, as if it had been claimed; what else is stored is not its business. In a transaction of its
 * own, because SQLite lets one that met a corrupt page write no more.
 */
export const failUnreadable = (tx: Transaction, jobId: JobId): void => {
  const job = tx.get(stateById, { id: jobId })
  const claimed = job && applyEvent(stateOf(job), { event: "claimed", leaseDurationMs: 1 }, tx.now)
  const failed =
    claimed && applyEvent(claimed, { event: "failed", token: claimed.token, errorCode: "internal_error" }, tx.now)
  // Somebody else may have done it meanwhile.
  if (job !== undefined && failed !== undefined) writeState(tx, job, failed)
}

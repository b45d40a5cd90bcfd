import { applyEvent, type JobId } from "@kiln/core/domain"
import type { Transaction } from "../Transaction.ts"
import { stateById, stateOf } from "./JobRow.ts"
import { writeState } from "./writeState.ts"

/** A job cannot be claimed because its row is damaged or on a corrupt page. */
export class UnreadableJob extends Error {
  override readonly name = "UnreadableJob"
  readonly jobId: JobId
  constructor(jobId: JobId, cause: unknown) {
    super(`${jobId} cannot be read`, { cause })
    this.jobId = jobId
  }
}

/**
 * Fails a job without reading it, as if it had been claimed. Otherwise it would return to every worker forever and block its lane.
 * Runs in a separate transaction, because SQLite rejects further writes in a transaction that met a corrupt page.
 */
export const failUnreadable = (tx: Transaction, jobId: JobId): void => {
  const job = tx.get(stateById, { id: jobId })
  const claimed = job && applyEvent(stateOf(job), { event: "claimed", leaseDurationMs: 1 }, tx.now)
  const failed =
    claimed && applyEvent(claimed, { event: "failed", token: claimed.token, errorCode: "internal_error" }, tx.now)
  // Another process may already have failed it.
  if (job !== undefined && failed !== undefined) writeState(tx, job, failed)
}

import { applyEvent, type JobId } from "@kiln/core/domain"
import { stateOf } from "../JobRow.ts"
import type { Transaction } from "../Session.ts"
import { finishJobs, lockedJobs, withoutResult } from "./writeStates.ts"

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
 * own, because the one that met it is rolled back.
 */
export const failUnreadable = async (tx: Transaction, jobId: JobId): Promise<void> => {
  const [from] = await lockedJobs(tx, [{ jobId }])
  const claimed = from && applyEvent(stateOf(from), { event: "claimed", leaseDurationMs: 1 }, tx.now)
  const to =
    claimed && applyEvent(claimed, { event: "failed", token: claimed.token, errorCode: "internal_error" }, tx.now)
  // Somebody else may have done it meanwhile.
  if (from !== undefined && to !== undefined) await finishJobs(tx, [withoutResult({ from, to })])
}

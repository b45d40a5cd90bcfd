import { applyEvent, type JobEvent } from "@kiln/core/domain"
import type { ClaimRef, FencedOutcome } from "@kiln/core/ports"
import { stateOf, type StateRow } from "../JobRow.ts"
import type { Transaction } from "../Transaction.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { stateById, writeState } from "./writeState.ts"

/** Ends a claim without a result: the job fails, or waits for its next attempt. */
export const endClaim = (tx: Transaction, { jobId }: ClaimRef, event: (job: StateRow) => JobEvent): FencedOutcome => {
  const job = tx.get(stateById, { id: jobId })
  const next = job && applyEvent(stateOf(job), event(job), tx.now)
  if (job === undefined || next === undefined || !writeState(tx, job, next)) return "LeaseLost"
  if (next.claimableAt !== null) mayBeClaimableAt(tx, job.laneId, next.claimableAt)
  return "Written"
}

import { applyEvent, type ClaimEnd, isRepeatedEnd } from "@kiln/core/domain"
import type { ClaimRef, FencedOutcome } from "@kiln/core/ports"
import { stateOf, type StateRow } from "../JobRow.ts"
import type { Transaction } from "../Transaction.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { stateById, writeState } from "./writeState.ts"

/** Ends a claim without a result: the job fails, or waits for its next attempt. A repeat finds that done, and writes nothing. */
export const endClaim = (tx: Transaction, { jobId }: ClaimRef, endOf: (job: StateRow) => ClaimEnd): FencedOutcome => {
  const job = tx.get(stateById, { id: jobId })
  if (job === undefined) return "LeaseLost"
  const state = stateOf(job)
  const end = endOf(job)
  const next = applyEvent(state, end, tx.now)
  if (next === undefined || !writeState(tx, job, next)) return isRepeatedEnd(state, end) ? "Written" : "LeaseLost"
  if (next.claimableAt !== null) mayBeClaimableAt(tx, job.laneId, next.claimableAt)
  return "Written"
}

import type { FencedOutcome } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { type ClaimEnding, endClaims } from "./endClaims.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { lockJobsAndLanes } from "./writeStates.ts"

/** Ends claims of jobs that stay in the queue: their lanes have something again, now or later. */
export const giveBack = async (
  tx: Transaction,
  items: ReadonlyArray<ClaimEnding>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const jobs = await tx.batch(
    lockJobsAndLanes,
    items.map(({ jobId: id }) => ({ id })),
    {},
  )
  const { moves, outcomes } = await endClaims(tx, jobs, items)
  await mayBeClaimableAt(
    tx,
    moves.map(({ from, to }) => ({ laneId: from.laneId, claimableAt: to.claimableAt })),
  )
  return outcomes
}

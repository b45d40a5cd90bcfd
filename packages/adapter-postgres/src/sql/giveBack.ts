import type { FencedOutcome } from "@kiln/core/ports"
import type { StateRow } from "../JobRow.ts"
import type { Transaction } from "../Session.ts"
import { type ClaimEnding, endClaims } from "./endClaims.ts"
import { mayBeClaimableAt } from "./lanes.ts"

/** Ends claims of jobs that stay in the queue: their lanes have something again, now or later. `jobs` were locked, and their lanes. */
export const giveBack = async (
  tx: Transaction,
  items: ReadonlyArray<ClaimEnding>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const { moves, outcomes } = await endClaims(tx, jobs, items)
  await mayBeClaimableAt(
    tx,
    moves.map(({ from, to }) => ({ laneId: from.laneId, claimableAt: to.claimableAt })),
  )
  return outcomes
}

import type { Failure, FencedOutcome } from "@kiln/core/ports"
import type { StateRow } from "../JobRow.ts"
import type { Transaction } from "../Session.ts"
import { endClaims } from "./endClaims.ts"

/** For good, with an error code. */
export const failJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Failure>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const { outcomes } = await endClaims(
    tx,
    jobs,
    items.map(({ errorCode, jobId, token }) => ({
      jobId,
      token,
      endOf: () => ({ event: "failed", token, errorCode }),
    })),
  )
  return outcomes
}

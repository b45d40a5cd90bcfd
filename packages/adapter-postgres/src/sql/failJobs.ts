import type { Failure, FencedOutcome } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { endClaims } from "./endClaims.ts"
import { lockJobs } from "./writeStates.ts"

/** For good, with an error code. */
export const failJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Failure>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const jobs = await tx.batch(
    lockJobs,
    items.map(({ jobId: id }) => ({ id })),
    {},
  )
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

import type { ClaimRef, FencedOutcome } from "@kiln/core/ports"
import type { StateRow } from "../JobRow.ts"
import type { Transaction } from "../Session.ts"
import { giveBack } from "./giveBack.ts"

/** Given back unharmed: at the head of its line, because it came first. */
export const releaseJobs = (
  tx: Transaction,
  items: ReadonlyArray<ClaimRef>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> =>
  giveBack(
    tx,
    items.map(({ jobId, token }) => ({
      jobId,
      token,
      endOf: ({ createdAt }) => ({ event: "released", token, createdAt }),
    })),
    jobs,
  )

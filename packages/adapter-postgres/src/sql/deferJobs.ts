import type { Deferral, FencedOutcome } from "@kiln/core/ports"
import type { StateRow } from "../JobRow.ts"
import type { Transaction } from "../Session.ts"
import { giveBack } from "./giveBack.ts"

/** Tried again later. A provider's Retry-After may be a fraction of a millisecond; store time is not. */
export const deferJobs = (
  tx: Transaction,
  items: ReadonlyArray<Deferral>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> =>
  giveBack(
    tx,
    items.map(({ countsAsFailure, delayMs, jobId, token }) => ({
      jobId,
      token,
      endOf: () => ({ event: "deferred", token, delayMs: Math.ceil(delayMs), countsAsFailure }),
    })),
    jobs,
  )

import type { Deferral, FencedOutcome } from "@kiln/core/ports"
import type { Transaction } from "../Transaction.ts"
import { endClaim } from "./endClaim.ts"

/** Tried again later. A provider's Retry-After may be a fraction of a millisecond; store time is not. */
export const deferJobs = (tx: Transaction, items: ReadonlyArray<Deferral>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => {
    const { countsAsFailure, delayMs, token } = item
    return endClaim(tx, item, () => ({ event: "deferred", token, delayMs: Math.ceil(delayMs), countsAsFailure }))
  })

import type { Failure, FencedOutcome } from "@kiln/core/ports"
import type { Transaction } from "../Transaction.ts"
import { endClaim } from "./endClaim.ts"

/** For good, with an error code. */
export const failJobs = (tx: Transaction, items: ReadonlyArray<Failure>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => endClaim(tx, item, () => ({ event: "failed", token: item.token, errorCode: item.errorCode })))

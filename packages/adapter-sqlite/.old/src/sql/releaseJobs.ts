import type { ClaimRef, FencedOutcome } from "@kiln/core/ports"
import type { Transaction } from "../Transaction.ts"
import { endClaim } from "./endClaim.ts"

/** Given back unharmed: at the head of its line, because it came first. */
export const releaseJobs = (tx: Transaction, items: ReadonlyArray<ClaimRef>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => endClaim(tx, item, (job) => ({ event: "released", token: item.token, createdAt: job.createdAt })))

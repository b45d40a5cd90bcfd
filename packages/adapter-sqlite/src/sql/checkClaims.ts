import { holdsClaim } from "@kiln/core/domain"
import type { ClaimRef } from "@kiln/core/ports"
import { stateOf } from "../JobRow.ts"
import type { Transaction } from "../Transaction.ts"
import { stateById } from "./writeState.ts"

/** The fence of every verb of an attempt, asked without writing anything. */
export const checkClaims = (tx: Transaction, items: ReadonlyArray<ClaimRef>): ReadonlyArray<boolean> =>
  items.map(({ jobId, token }) => {
    const job = tx.get(stateById, { id: jobId })
    return job !== undefined && holdsClaim(stateOf(job), token)
  })

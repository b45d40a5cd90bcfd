import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** A kind that was never paused has no row. */
const insertPause = statement((given: Given<{ kind: string }>) =>
  query
    .insertInto("paused_kinds")
    .values({ kind: given.kind })
    .onConflict((conflict) => conflict.doNothing()),
)

const deletePause = statement((given: Given<{ kind: string }>) =>
  query.deleteFrom("paused_kinds").where("kind", "=", given.kind),
)

export const pauseKind = (tx: Transaction, kind: string, paused: boolean): void => {
  tx.run(paused ? insertPause : deletePause, { kind })
}

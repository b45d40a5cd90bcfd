import type { Transaction } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

const pause = statement((given: Given<{ kind: string }>) =>
  query
    .insertInto("paused_kinds")
    .values({ kind: given.kind })
    .onConflict((conflict) => conflict.column("kind").doNothing()),
)

const goOn = statement((given: Given<{ kind: string }>) => query.deleteFrom("paused_kinds").where("kind", "=", given.kind))

/** Claims that begin afterwards pass the kind's lanes over, or find them again as they were. */
export const pauseKind = async (tx: Transaction, kind: string, paused: boolean): Promise<void> => {
  await tx.run(paused ? pause : goOn, { kind })
}

import type { Transaction } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"

const pause = statement((given: Given<{ kind: string }>) =>
  query
    .insertInto("paused_kinds")
    .values({ kind: given.kind })
    .onConflict((conflict) => conflict.column("kind").doNothing()),
)

const goOn = statement((given: Given<{ kind: string }>) =>
  query.deleteFrom("paused_kinds").where("kind", "=", given.kind),
)

/** Said twice, it is as if said once. What is claimed is for the workers to decide, who read the board. */
export const pauseKind = async (tx: Transaction, kind: string, paused: boolean): Promise<void> => {
  await tx.run(paused ? pause : goOn, { kind })
}

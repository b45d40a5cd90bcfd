import type { Purge } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

const deletePurges = batchStatement<{ blobPrefix: string }, {}, unknown>({ blobPrefix: "text" }, (item) =>
  query.deleteFrom("purges").using(item).whereRef("purges.blob_prefix", "=", "item.blobPrefix"),
)

/** Only now is it forgotten that they were due. In one order, so that no two processes wait for each other. */
export const confirmPurges = async (tx: Transaction, purges: ReadonlyArray<Purge>): Promise<void> => {
  const sorted = purges.map(({ blobPrefix }) => ({ blobPrefix })).sort((a, b) => (a.blobPrefix < b.blobPrefix ? -1 : 1))
  await tx.runBatch(deletePurges, sorted, {})
}

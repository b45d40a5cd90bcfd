import type { Purge } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const deletePurge = statement((given: Given<{ blobPrefix: string }>) =>
  query.deleteFrom("purges").where("blob_prefix", "=", given.blobPrefix),
)

/** Only now is it forgotten that they were due. */
export const confirmPurges = (tx: Transaction, purges: ReadonlyArray<Purge>): void => {
  for (const { blobPrefix } of purges) tx.run(deletePurge, { blobPrefix })
}

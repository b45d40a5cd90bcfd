import type { Purge } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** In the order in which they were recorded. */
const oldestPurges = statement((given: Given<{ limit: number }>) =>
  query.selectFrom("purges").select("blob_prefix as blobPrefix").orderBy("id").limit(given.limit),
)

export const listPurges = (tx: Transaction, limit: number): ReadonlyArray<Purge> => tx.all(oldestPurges, { limit })

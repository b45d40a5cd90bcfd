import type { Purge } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** One that is due already keeps its place. */
const recordPurge = statement((given: Given<{ blobPrefix: string; now: number }>) =>
  query
    .insertInto("purges")
    .values({ blob_prefix: given.blobPrefix, recorded_at: given.now })
    .onConflict((conflict) => conflict.column("blob_prefix").doNothing()),
)

const duePurge = statement((given: Given<{ blobPrefix: string }>) =>
  query.selectFrom("purges").select("blob_prefix as blobPrefix").where("blob_prefix", "=", given.blobPrefix),
)

/** Records what is to be removed in the transaction that makes it unreachable. */
export const recordPurges = (tx: Transaction, prefixes: ReadonlyArray<string>): ReadonlyArray<Purge> =>
  prefixes.map((blobPrefix) => {
    tx.run(recordPurge, { blobPrefix, now: tx.now })
    return { blobPrefix }
  })

/** Which of these are still to be removed. */
export const stillDue = (tx: Transaction, prefixes: ReadonlyArray<string>): ReadonlyArray<Purge> =>
  prefixes.flatMap((blobPrefix) => tx.get(duePurge, { blobPrefix }) ?? [])

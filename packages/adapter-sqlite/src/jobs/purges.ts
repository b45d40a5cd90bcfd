import { purgePauseMs } from "@kiln/core/domain"
import type { Purge } from "@kiln/core/ports"
import { assign, select, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

type Prefix = Values<"purges", "blob_prefix">

/** A purge that is already due keeps its position. */
const recordPurge = statement((given: Given<Values<"purges", "blob_prefix" | "recorded_at">>) =>
  query
    .insertInto("purges")
    .values(assign(given, "blob_prefix", "recorded_at"))
    .onConflict((conflict) => conflict.column("blob_prefix").doNothing()),
)

const duePurge = statement((given: Given<Prefix>) =>
  query.selectFrom("purges").select(select("purges", "blob_prefix")).where("blob_prefix", "=", given.blobPrefix),
)

const standingOf = statement((given: Given<Prefix>) =>
  query
    .selectFrom("purges")
    .select(select("purges", "failures", "due_at"))
    .where("blob_prefix", "=", given.blobPrefix),
)

const moveBack = statement((given: Given<Values<"purges", "blob_prefix" | "failures" | "due_at">>) =>
  query
    .updateTable("purges")
    .set(assign(given, "failures", "due_at"))
    .where("blob_prefix", "=", given.blobPrefix),
)

const makeAllDue = statement(() => query.updateTable("purges").set({ due_at: 0 }).where("due_at", ">", 0))

const deletePurge = statement((given: Given<Prefix>) =>
  query.deleteFrom("purges").where("blob_prefix", "=", given.blobPrefix),
)

/** Records blobs to be removed, in the transaction that makes them unreachable. */
export const recordPurges = (tx: Transaction, prefixes: ReadonlyArray<string>): ReadonlyArray<Purge> =>
  prefixes.map((blobPrefix) => {
    tx.run(recordPurge, { blobPrefix, recordedAt: tx.now })
    return { blobPrefix }
  })

/** Returns the purges among these that are still due. */
export const purgesStillDue = (tx: Transaction, prefixes: ReadonlyArray<string>): ReadonlyArray<Purge> =>
  prefixes.flatMap((blobPrefix) => tx.get(duePurge, { blobPrefix }) ?? [])

export const postponePurges = (tx: Transaction, purges: ReadonlyArray<Purge>): void => {
  for (const { blobPrefix } of purges) {
    const purge = tx.get(standingOf, { blobPrefix })
    if (purge === undefined || purge.dueAt > tx.now) continue
    const { failures } = purge
    tx.run(moveBack, { blobPrefix, failures: failures + 1, dueAt: tx.now + purgePauseMs(failures) })
  }
}

export const hastenPurges = (tx: Transaction): void => void tx.run(makeAllDue, {})

export const confirmPurges = (tx: Transaction, purges: ReadonlyArray<Purge>): void => {
  for (const { blobPrefix } of purges) tx.run(deletePurge, { blobPrefix })
}

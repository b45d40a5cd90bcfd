import { purgePauseMs } from "@kiln/core/domain"
import type { DuePurges, Purge } from "@kiln/core/ports"
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

/** In the order in which they were recorded. */
const oldestPurges = statement((given: Given<{ readonly limit: number }>) =>
  query.selectFrom("purges").select(select("purges", "blob_prefix")).orderBy("id").limit(given.limit),
)

/** In the order of an index, which also holds those that are not due. */
export const nextDue = statement((given: Given<{ readonly now: number; readonly limit: number }>) =>
  query
    .selectFrom("purges")
    .select(select("purges", "blob_prefix"))
    .where("due_at", "<=", given.now)
    .orderBy("failures")
    .orderBy("due_at")
    .orderBy("id")
    .limit(given.limit),
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

const purgesDue = statement(() =>
  query
    .selectFrom("purges")
    .select((of) => [of.fn.countAll<number>().as("count"), of.fn.min<number | null>("recorded_at").as("oldestAt")]),
)

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

export const listPurges = (tx: Transaction, limit: number): ReadonlyArray<Purge> => tx.all(oldestPurges, { limit })

export const nextPurges = (tx: Transaction, limit: number): ReadonlyArray<Purge> =>
  tx.all(nextDue, { now: tx.now, limit })

export const postponePurges = (tx: Transaction, purges: ReadonlyArray<Purge>): void => {
  for (const { blobPrefix } of purges) {
    const purge = tx.get(standingOf, { blobPrefix })
    if (purge === undefined || purge.dueAt > tx.now) continue
    const { failures } = purge
    tx.run(moveBack, { blobPrefix, failures: failures + 1, dueAt: tx.now + purgePauseMs(failures) })
  }
}

export const hastenPurges = (tx: Transaction): void => void tx.run(makeAllDue, {})

export const readDuePurges = (tx: Transaction): DuePurges => {
  const row = tx.get(purgesDue, {})
  return { count: row?.count ?? 0, oldestAgeMs: Math.max(0, tx.now - (row?.oldestAt ?? tx.now)) }
}

export const confirmPurges = (tx: Transaction, purges: ReadonlyArray<Purge>): void => {
  for (const { blobPrefix } of purges) tx.run(deletePurge, { blobPrefix })
}

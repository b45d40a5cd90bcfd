import { sql } from "kysely"
import type { DuePurges, Purge } from "@kiln/core/ports"
import type { Session, Transaction } from "../Session.ts"
import { batchStatement, type Given, query, statement, whole } from "../Statement.ts"

/** A purge that is already due keeps its position. */
const insertPurges = batchStatement<{ blobPrefix: string }, { now: number }, unknown>(
  { blobPrefix: "text" },
  (item, given) =>
    query
      .insertInto("purges")
      .columns(["blob_prefix", "recorded_at"])
      .expression(
        query
          .selectFrom(item)
          .select(["item.blobPrefix", whole(given.now).as("recordedAt")])
          .orderBy("item.ord"),
      )
      .onConflict((conflict) => conflict.column("blob_prefix").doNothing()),
)

const duePurges = batchStatement<{ blobPrefix: string }, {}, Purge>({ blobPrefix: "text" }, (item) =>
  query
    .selectFrom("purges")
    .innerJoin(item, (join) => join.onRef("item.blobPrefix", "=", "purges.blob_prefix"))
    .select("item.blobPrefix")
    .orderBy("item.ord"),
)

/** Records blobs to be removed, in the transaction that makes them unreachable. */
export const recordPurges = async (tx: Transaction, prefixes: ReadonlyArray<string>): Promise<ReadonlyArray<Purge>> => {
  const purges = prefixes.map((blobPrefix) => ({ blobPrefix }))
  await tx.runBatch(insertPurges, purges, { now: tx.now })
  return purges
}

/** Returns which of these are still to be removed. */
export const stillDue = (session: Session, prefixes: ReadonlyArray<string>): Promise<ReadonlyArray<Purge>> =>
  session.batch(
    duePurges,
    prefixes.map((blobPrefix) => ({ blobPrefix })),
    {},
  )

const deletePurges = batchStatement<{ blobPrefix: string }, {}, unknown>({ blobPrefix: "text" }, (item) =>
  query.deleteFrom("purges").using(item).whereRef("purges.blob_prefix", "=", "item.blobPrefix"),
)

/** Deletes confirmed purges, in a fixed order to avoid deadlocks. */
export const confirmPurges = async (tx: Transaction, purges: ReadonlyArray<Purge>): Promise<void> => {
  const sorted = purges.map(({ blobPrefix }) => ({ blobPrefix })).sort((a, b) => (a.blobPrefix < b.blobPrefix ? -1 : 1))
  await tx.runBatch(deletePurges, sorted, {})
}

/** In the order in which they were recorded. */
const oldestPurges = statement((given: Given<{ limit: number }>) =>
  query.selectFrom("purges").select("blob_prefix as blobPrefix").orderBy("id").limit(given.limit),
)

export const listPurges = (session: Session, limit: number): Promise<ReadonlyArray<Purge>> =>
  session.all(oldestPurges, { limit })

const purgesDue = statement(() =>
  query
    .selectFrom("purges")
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      sql<number>`coalesce(greatest("kiln".store_time() - min(recorded_at), 0), 0)`.as("oldestAgeMs"),
    ]),
)

export const readDuePurges = async (session: Session): Promise<DuePurges> =>
  (await session.get(purgesDue, {})) ?? { count: 0, oldestAgeMs: 0 }

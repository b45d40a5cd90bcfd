import type { Purge } from "@kiln/core/ports"
import type { Session, Transaction } from "../Session.ts"
import { batchStatement, query, whole } from "../Statement.ts"

/** One that is due already keeps its place. */
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

/** Records what is to be removed in the transaction that makes it unreachable. */
export const recordPurges = async (tx: Transaction, prefixes: ReadonlyArray<string>): Promise<ReadonlyArray<Purge>> => {
  const purges = prefixes.map((blobPrefix) => ({ blobPrefix }))
  await tx.runBatch(insertPurges, purges, { now: tx.now })
  return purges
}

/** Which of these are still to be removed. */
export const stillDue = (session: Session, prefixes: ReadonlyArray<string>): Promise<ReadonlyArray<Purge>> =>
  session.batch(
    duePurges,
    prefixes.map((blobPrefix) => ({ blobPrefix })),
    {},
  )

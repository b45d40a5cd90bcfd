import { sql } from "kysely"
import { purgePauseMs } from "@kiln/core/domain"
import type { Purge } from "@kiln/core/ports"
import type { Session, Transaction } from "../Session.ts"
import { batchStatement, query, statement, whole } from "../Statement.ts"

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

/** Locks the rows in the order in which everybody does, whichever way the planner finds them. */
const deletePurges = batchStatement<{ blobPrefix: string }, {}, unknown>({ blobPrefix: "text" }, (item) =>
  query
    .with("confirmed", () =>
      query
        .selectFrom("purges")
        .innerJoin(item, (join) => join.onRef("item.blobPrefix", "=", "purges.blob_prefix"))
        .select("purges.id")
        .orderBy("purges.blob_prefix")
        .forUpdate("purges"),
    )
    .deleteFrom("purges")
    .where("purges.id", "in", sql<number>`(select id from confirmed)`),
)

const inOrder = (purges: ReadonlyArray<Purge>) =>
  purges.map(({ blobPrefix }) => ({ blobPrefix })).sort((a, b) => (a.blobPrefix < b.blobPrefix ? -1 : 1))

/** Deletes confirmed purges, in a fixed order to avoid deadlocks. */
export const confirmPurges = async (tx: Transaction, purges: ReadonlyArray<Purge>): Promise<void> => {
  await tx.runBatch(deletePurges, inOrder(purges), {})
}

type Standing = { blobPrefix: string; failures: number }

const lockDue = batchStatement<{ blobPrefix: string }, { now: number }, Standing>(
  { blobPrefix: "text" },
  (item, given) =>
    query
      .selectFrom("purges")
      .innerJoin(item, (join) => join.onRef("item.blobPrefix", "=", "purges.blob_prefix"))
      .select(["item.blobPrefix", "purges.failures"])
      .where("purges.due_at", "<=", given.now)
      .orderBy("purges.blob_prefix")
      .forUpdate(["purges"]),
)

const moveBack = batchStatement<Standing & { dueAt: number }, {}, unknown>(
  { blobPrefix: "text", failures: "bigint", dueAt: "bigint" },
  (item) =>
    query
      .updateTable("purges")
      .from(item)
      .set((set) => ({ failures: set.ref("item.failures"), due_at: set.ref("item.dueAt") }))
      .whereRef("purges.blob_prefix", "=", "item.blobPrefix"),
)

/** In the order in which confirmations lock them. */
export const postponePurges = async (tx: Transaction, purges: ReadonlyArray<Purge>): Promise<void> => {
  const due = await tx.batch(lockDue, inOrder(purges), { now: tx.now })
  const postponed = due.map(({ blobPrefix, failures }) => ({
    blobPrefix,
    failures: failures + 1,
    dueAt: tx.now + purgePauseMs(failures),
  }))
  await tx.runBatch(moveBack, postponed, {})
}

const makeAllDue = statement(() =>
  query
    .with("waiting", (waiting) =>
      waiting.selectFrom("purges").select("id").where("due_at", ">", 0).orderBy("blob_prefix").forUpdate(),
    )
    .updateTable("purges")
    .set({ due_at: 0 })
    .where("id", "in", sql<number>`(select id from waiting)`),
)

export const hastenPurges = async (session: Session): Promise<void> => {
  await session.run(makeAllDue, {})
}

import { sql } from "kysely"
import { purgePauseMs } from "@kiln/core/domain"
import type { DuePurges, JobStore, Purge } from "@kiln/core/ports"
import { integer, text } from "./column.ts"
import { select } from "./columns.ts"
import type { Program, Sql, Transactions } from "./Sql.ts"
import { batchStatement, type Given, query, statement, storeTime, whole } from "./Statement.ts"

type Prefix = { readonly blobPrefix: string }

const prefix = { blobPrefix: text() }

const asItems = (prefixes: ReadonlyArray<string>): ReadonlyArray<Prefix> =>
  prefixes.map((blobPrefix) => ({ blobPrefix }))

/** In the order of their prefixes, in which everybody locks them. */
const inOrder = (purges: ReadonlyArray<Purge>): ReadonlyArray<Prefix> =>
  asItems(purges.map(({ blobPrefix }) => blobPrefix).sort())

// Recording

/** A purge that is already due keeps its position. */
const insertPurges = batchStatement(prefix, (item, given: Given<{ readonly now: number }>) =>
  query
    .insertInto("purges")
    .columns(["blob_prefix", "recorded_at"])
    .expression(
      // Without a condition, SQLite takes ON CONFLICT for that of a join.
      query
        .selectFrom(item)
        .select(["item.blobPrefix", whole(given.now).as("recordedAt")])
        .where(sql<boolean>`true`),
    )
    .onConflict((conflict) => conflict.column("blob_prefix").doNothing()),
)

/** Records blobs to be removed, in the transaction that makes them unreachable. */
export function* recordPurges(tx: Sql, prefixes: ReadonlyArray<string>): Program<ReadonlyArray<Purge>> {
  const purges = asItems(prefixes)
  yield* tx.runBatch(insertPurges, purges, { now: yield* tx.now() })
  return purges
}

const duePurges = batchStatement(prefix, (item) =>
  query
    .selectFrom("purges")
    .innerJoin(item, (join) => join.onRef("item.blobPrefix", "=", "purges.blob_prefix"))
    .select("item.blobPrefix"),
)

/** Returns which of these are still to be removed, in any order. */
export function* purgesStillDue(tx: Sql, prefixes: ReadonlyArray<string>): Program<ReadonlyArray<Purge>> {
  return yield* tx.batch(duePurges, asItems(prefixes))
}

// Reading

/** In the order in which they were recorded. */
const oldestPurges = statement((given: Given<{ readonly limit: number }>) =>
  query.selectFrom("purges").select(select("purges", "blob_prefix")).orderBy("id").limit(given.limit),
)

/** In the order of an index, which also holds those that are not due. */
export const nextDue = statement((given: Given<{ readonly limit: number }>) =>
  query
    .selectFrom("purges")
    .select(select("purges", "blob_prefix"))
    .where("due_at", "<=", storeTime)
    .orderBy("failures")
    .orderBy("due_at")
    .orderBy("id")
    .limit(given.limit),
)

const purgesDue = statement(() =>
  query
    .selectFrom("purges")
    .select((of) => [of.fn.countAll<number>().as("count"), of.fn.min<number | null>("recorded_at").as("oldestAt")]),
)

export function* readDuePurges(tx: Sql): Program<DuePurges> {
  const row = yield* tx.get(purgesDue, {})
  const now = yield* tx.now()
  return { count: row?.count ?? 0, oldestAgeMs: Math.max(0, now - (row?.oldestAt ?? now)) }
}

// Removing

const lockDue = batchStatement(prefix, (item, given: Given<{ readonly now: number }>) =>
  query
    .selectFrom("purges")
    .innerJoin(item, (join) => join.onRef("item.blobPrefix", "=", "purges.blob_prefix"))
    .select(["item.blobPrefix", "purges.failures"])
    .where("purges.due_at", "<=", given.now)
    .orderBy("purges.blob_prefix")
    .forUpdate(["purges"]),
)

const moveBack = batchStatement({ ...prefix, failures: integer(), dueAt: integer() }, (item) =>
  query
    .updateTable("purges")
    .from(item)
    .set((set) => ({ failures: set.ref("item.failures"), due_at: set.ref("item.dueAt") }))
    .whereRef("purges.blob_prefix", "=", "item.blobPrefix"),
)

function* postponePurges(tx: Sql, purges: ReadonlyArray<Purge>): Program<void> {
  const now = yield* tx.now()
  const due = yield* tx.batch(lockDue, inOrder(purges), { now })
  const postponed = due.map(({ blobPrefix, failures }) => ({
    blobPrefix,
    failures: failures + 1,
    dueAt: now + purgePauseMs(failures),
  }))
  yield* tx.runBatch(moveBack, postponed)
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

/** Locks the rows in the order in which everybody does, whichever way the planner finds them. */
const deletePurges = batchStatement(prefix, (item) =>
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

/** The verbs about blobs that are to be removed. `one` runs a single statement that writes. */
export const purgeVerbs = (
  db: Transactions,
  one: Transactions["read"],
): Pick<JobStore["Service"], "listPurges" | "nextPurges" | "postponePurges" | "hastenPurges" | "confirmPurges"> => ({
  listPurges: (limit) =>
    db.read("JobStore.listPurges", function* (tx) {
      return yield* tx.all(oldestPurges, { limit })
    }),
  nextPurges: (limit) =>
    db.read("JobStore.nextPurges", function* (tx) {
      return yield* tx.all(nextDue, { limit })
    }),
  postponePurges: (purges) => db.write("JobStore.postponePurges", (tx) => postponePurges(tx, purges)),
  hastenPurges: one("JobStore.hastenPurges", function* (tx) {
    yield* tx.run(makeAllDue, {})
  }),
  confirmPurges: (purges) =>
    db.write("JobStore.confirmPurges", function* (tx) {
      yield* tx.runBatch(deletePurges, inOrder(purges))
    }),
})

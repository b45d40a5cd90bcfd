import { type RawBuilder, sql } from "kysely"
import { type FileId, idBody, type JobId, type UploadId } from "@kiln/core/domain"
import { purgePauseMs } from "@kiln/core/rules"
import type { DuePurges, JobStore, NamedBlob, Purge, StoredLineage } from "@kiln/core/ports"
import {
  batchStatement,
  type Given,
  type Program,
  query,
  type Sql,
  statement,
  storeTime,
  type Transactions,
  whole,
} from "./Sql.ts"
import { integer, select, text, type Values } from "./columns.ts"

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

/** The position of a listing. */
export interface BlobCursor {
  readonly table: "files" | "uploads"
  readonly seq: number
}

export interface BlobPage {
  readonly blobs: ReadonlyArray<NamedBlob>
  /** `undefined` at the end. */
  readonly next: BlobCursor | undefined
}

/** Files are listed before uploads. */
export const firstBlobs: BlobCursor = { table: "files", seq: 0 }

const uploadsAfter = statement((given: Given<{ readonly seq: number; readonly limit: number }>) =>
  query
    .selectFrom("uploads")
    .select(select("uploads", "seq", "id", "blob_key", "bytes", "sha256"))
    .where("seq", ">", given.seq)
    .where("blob_key", "is not", null)
    .where("erased", "=", false)
    .orderBy("seq")
    .limit(given.limit),
)

const uploadNaming = statement((given: Given<Values<"uploads", "id"> & { readonly blobKey: string }>) =>
  query
    .selectFrom("uploads")
    .select("seq")
    .where("id", "=", given.id)
    .where("blob_key", "=", given.blobKey)
    .where("erased", "=", false),
)

const isUpload = (id: FileId | UploadId): id is UploadId => id.startsWith("upl_")

/**
 * The blobs that rows name. The ends of jobs are in different tables: `isReadable` is whether callers can still read the file of a row
 * of `files`, `isKept` whether its job still has its data.
 */
export const namedBlobs = (isReadable: RawBuilder<boolean>, isKept: RawBuilder<boolean>) => {
  const filesAfter = statement((given: Given<{ readonly seq: number; readonly limit: number }>) =>
    query
      .selectFrom("files")
      .select(select("files", "seq", "id", "blob_key", "bytes", "sha256"))
      .where("files.seq", ">", given.seq)
      .where(isReadable)
      .orderBy("files.seq")
      .limit(given.limit),
  )
  const fileNaming = statement((given: Given<Values<"files", "id" | "blob_key">>) =>
    query
      .selectFrom("files")
      .select("files.seq")
      .where("files.id", "=", given.id)
      .where("files.blob_key", "=", given.blobKey)
      .where(isKept),
  )
  function* listNamedBlobs(tx: Sql, { seq, table }: BlobCursor, limit: number): Program<BlobPage> {
    const rows =
      table === "files" ? yield* tx.all(filesAfter, { seq, limit }) : yield* tx.all(uploadsAfter, { seq, limit })
    const last = rows.at(-1)
    const full = last !== undefined && rows.length === limit
    return {
      blobs: rows.flatMap(({ blobKey, bytes, id, sha256 }) =>
        blobKey === null || bytes === null || sha256 === null ? [] : [{ id, blobKey, bytes, sha256 }],
      ),
      next: full ? { table, seq: last.seq } : table === "files" ? { table: "uploads", seq: 0 } : undefined,
    }
  }
  /** Returns whether a row still names the blob, which may have been erased since it was listed. */
  function* isNamed(tx: Sql, { blobKey, id }: NamedBlob): Program<boolean> {
    const row = isUpload(id) ? yield* tx.get(uploadNaming, { id, blobKey }) : yield* tx.get(fileNaming, { id, blobKey })
    return row !== undefined
  }
  return { isNamed, listNamedBlobs }
}

/** Every id. With it, SQLite finds the last entry of an index instead of scanning it. */
const anyId = sql<boolean>`id > ''`

/** One statement, so from one snapshot. */
export const storedLineage = statement(() =>
  query
    .selectNoFrom((from) => [
      sql<number>`${storeTime}`.as("now"),
      from.selectFrom("jobs").select("id").where(anyId).orderBy("id", "desc").limit(1).as("newestJob"),
      from.selectFrom("uploads").select("id").where(anyId).orderBy("id", "desc").limit(1).as("newestUpload"),
      from.selectFrom("blob_lineage").select("version").as("version"),
      from.selectFrom("blob_lineage").select("document").as("document"),
    ])
    .$castTo<{
      readonly now: number
      readonly newestJob: JobId | null
      readonly newestUpload: UploadId | null
      readonly version: number | null
      readonly document: string | null
    }>(),
)

/** If several processes write the first version, only one inserts the row. */
const insertLineage = statement((given: Given<Values<"blob_lineage", "document">>) =>
  query
    .insertInto("blob_lineage")
    .values({ id: 1, version: 1, document: given.document })
    .onConflict((conflict) => conflict.column("id").doNothing()),
)

const replaceLineage = statement((given: Given<Values<"blob_lineage", "version" | "document">>) =>
  query
    .updateTable("blob_lineage")
    .set((column) => ({ version: column("version", "+", 1), document: given.document }))
    .where("version", "=", given.version),
)

export function* readLineage(tx: Sql): Program<StoredLineage> {
  const row = yield* tx.get(storedLineage, {})
  if (row === undefined) throw new TypeError("a statement without a table returned no row")
  const ids = [row.newestJob, row.newestUpload].flatMap((id) => (id === null ? [] : [idBody(id)]))
  return { version: row.version ?? 0, document: row.document, now: row.now, newestId: ids.toSorted().at(-1) ?? null }
}

export function* writeLineage(tx: Sql, version: number, document: string): Program<boolean> {
  const written = version === 0 ? tx.run(insertLineage, { document }) : tx.run(replaceLineage, { version, document })
  return (yield* written) > 0
}

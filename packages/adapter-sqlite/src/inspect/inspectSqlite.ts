import { existsSync, statSync } from "node:fs"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type RawBuilder, sql } from "kysely"
import { isError, StoreUnavailable } from "@kiln/core/domain"
import type { QueueGroup, StoreInspection, StorePlace, UpkeepProblem } from "@kiln/core/ports"
import { commonChecks, dueRetention, namedBlobs } from "@kiln/sql-store"
import type { Database } from "../Database.ts"
import { migrationStatus } from "../migrations/migrate.ts"
import { migrations } from "../migrations/index.ts"
import { readBoard } from "../board.ts"
import { findOrphans } from "../jobs/findJobs.ts"
import { finishedKinds, isNotNeeded } from "../jobs/retention.ts"
import { openReadOnly, type SqliteOptions } from "../openDatabase.ts"
import { sqlitePlace } from "../disk/DatabaseFile.ts"
import { isCorrupt, type SqliteDatabase } from "../SqliteDatabase.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { runIn, transactionsOf } from "../transactionsOf.ts"
import { schemaDrift } from "./schemaDrift.ts"

const jobOfFile = (condition: RawBuilder<boolean>) =>
  sql<boolean>`EXISTS (SELECT 1 FROM kiln_jobs AS job WHERE job.seq = kiln_files.job_seq AND job.retained = 'kept' AND ${condition})`

/** Files that callers can still read are those of done jobs. */
const named = namedBlobs(jobOfFile(sql<boolean>`job.status = 'done'`), jobOfFile(sql<boolean>`true`))

type Now = { readonly now: number }

const stateAt = ({ now }: Given<Now>) =>
  sql<QueueGroup["state"]>`CASE WHEN held = 0 THEN CASE WHEN claimable_at <= ${now} THEN 'ready' ELSE 'delayed' END
    WHEN claimable_at <= ${now} THEN 'lapsed' ELSE 'running' END`

/** Reads the unfinished jobs lane by lane, from the index of ready jobs. */
const groupsOfQueue = statement((given: Given<Now>) =>
  query
    .selectFrom("lanes")
    .crossJoin("jobs")
    .select((of) => [
      "lanes.kind",
      "lanes.mode",
      stateAt(given).as("state"),
      of.fn.countAll<number>().as("count"),
      of.fn.min<number>("claimable_at").as("firstAt"),
    ])
    .where("jobs.held", "in", [0, 1])
    .whereRef("jobs.lane_id", "=", "lanes.id")
    .where("claimable_at", "is not", null)
    .groupBy(["lanes.kind", "lanes.mode", "state"])
    .orderBy("lanes.kind")
    .orderBy("lanes.mode")
    .orderBy("state"),
)

const countQueue = (tx: Transaction): ReadonlyArray<QueueGroup> =>
  tx.all(groupsOfQueue, { now: tx.now }).map(({ firstAt, ...group }) => ({
    ...group,
    oldestMs: Math.max(0, tx.now - firstAt),
  }))

const readDueRetention = dueRetention({ table: "jobs", seq: "seq", retained: sql.ref("jobs.retained"), isNotNeeded })

/** Opens a store for inspection, also while a server runs on it. Returns `undefined` if there is no database yet. */
export const inspectSqlite = (
  options: SqliteOptions,
): Effect.Effect<StoreInspection | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.map(openReadOnly(options), (database) =>
    database === undefined ? undefined : inspectionOf(database, sqlitePlace(options.path, options.allowCopies)),
  )

const inspectionOf = (db: Database, { read: readPlace }: StorePlace["Service"]): StoreInspection => ({
  ...commonChecks(transactionsOf(db).read, named),
  migrations: db.read("inspect.migrations", () => migrationStatus(db.connection)),
  schemaDrift: db.read("inspect.schemaDrift", () => schemaDrift(db, migrations, migrationStatus(db.connection))),
  damage: Effect.try({
    try: () => findDamage(db.connection),
    catch: (cause) => new StoreUnavailable({ operation: "inspect.damage", cause }),
  }),
  dueRetention: (periods) =>
    db.read("inspect.dueRetention", (tx) => {
      const [kept, expired, deleted] = [
        finishedKinds(tx, "kept"),
        finishedKinds(tx, "expired"),
        finishedKinds(tx, "deleted"),
      ]
      return runIn(tx, (common) => readDueRetention(common, periods, { kept, expired, deleted }))
    }),
  upkeep: db.read("inspect.upkeep", () => findUpkeep(db.connection)),
  countQueue: db.read("inspect.countQueue", countQueue),
  readBoard: db.read("inspect.readBoard", readBoard),
  readPlace,
  findOrphans: (blobs) => db.read("inspect.findOrphans", (tx) => findOrphans(tx, blobs)),
})

interface BrokenReference {
  readonly table: string
  readonly rowid: number | null
  readonly parent: string
}

/** Maximum number of findings of each check. */
const maxFindings = 100

/** Checks every page, index, constraint and foreign key. The findings contain no stored content. */
const findDamage = (connection: SqliteDatabase): ReadonlyArray<string> => {
  try {
    const pages = connection.pragma(`integrity_check(${maxFindings})`) as ReadonlyArray<{
      readonly integrity_check: string
    }>
    const references = connection.pragma("foreign_key_check") as ReadonlyArray<BrokenReference>
    return [
      ...pages.map((row) => row.integrity_check).filter((line) => line !== "ok"),
      ...references
        .slice(0, maxFindings)
        .map(({ parent, rowid, table }) => `row ${rowid ?? "?"} of ${table} refers to a missing row of ${parent}`),
    ]
  } catch (error) {
    // The damage is so severe that the check itself failed.
    if (isError(error) && isCorrupt(error)) return [error.message]
    throw error
  }
}

const megabyte = 1_048_576
/** The log is truncated to 64 MB after a burst, unless a reader prevents it. */
const mostLogBytes = 256 * megabyte
/** Less unused space than this is not worth a stop of the service. */
const leastFreeBytes = 64 * megabyte
/** Share of the file that may be unused. */
const mostFreeShare = 0.25

const megabytes = (bytes: number): string => `${Math.round(bytes / megabyte)} MB`

/** Finds space that is lost until an operator does something. */
const findUpkeep = (connection: SqliteDatabase): ReadonlyArray<UpkeepProblem> => {
  const read = (name: string): number => Number(connection.pragma(name, { simple: true }))
  const [{ file: path = "" } = {}] = connection.pragma("database_list") as ReadonlyArray<{ readonly file?: string }>
  const bytes = read("page_count") * read("page_size")
  const freeBytes = read("freelist_count") * read("page_size")
  const log = `${path}-wal`
  const logBytes = existsSync(log) ? statSync(log).size : 0
  return [
    ...(read("auto_vacuum") === 0 && freeBytes > Math.max(leastFreeBytes, mostFreeShare * bytes)
      ? [
          {
            problem: `${megabytes(freeBytes)} of ${megabytes(bytes)} in ${path} are unused, and the file was not created by kiln, so they stay in it`,
            remedy: `stop every process that uses the file, then run sqlite3 ${path} "PRAGMA auto_vacuum = INCREMENTAL; VACUUM"`,
            isUrgent: false,
          },
        ]
      : []),
    ...(logBytes > mostLogBytes
      ? [
          {
            problem: `the write-ahead log ${log} has ${megabytes(logBytes)}: a program has kept a transaction open for a long time`,
            remedy: `find the program with lsof ${log}, and end its transaction`,
            isUrgent: false,
          },
        ]
      : []),
  ]
}

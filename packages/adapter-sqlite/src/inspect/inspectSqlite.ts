import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type RawBuilder, sql } from "kysely"
import { isError, StoreUnavailable } from "@kiln/core/domain"
import type { StoreInspection, StorePlace } from "@kiln/core/ports"
import {
  countDeliveries,
  findLastEntry,
  findSecret,
  firstBlobs,
  listKeys,
  listSchedules,
  listWorkers,
  namedBlobs,
  readDuePurges,
  readLineage,
  readRetention,
} from "@kiln/sql-store"
import type { Database } from "../Database.ts"
import { migrationStatus } from "../migrate.ts"
import { migrations } from "../migrations/index.ts"
import { readBoard } from "../board.ts"
import { findOrphans } from "../jobs/findJobs.ts"
import { openReadOnly, type SqliteOptions } from "../openDatabase.ts"
import { sqlitePlace } from "../place.ts"
import type { SqliteDatabase } from "../SqliteDatabase.ts"
import { isCorrupt } from "../sqliteErrors.ts"
import { transactionsOf } from "../transactionsOf.ts"
import { findUploadOrphans } from "../uploads.ts"
import { readDueRetention } from "./dueRetention.ts"
import { countQueue } from "./countQueue.ts"
import { schemaDrift } from "./schemaDrift.ts"
import { findUpkeep } from "./upkeep.ts"

const jobOfFile = (condition: RawBuilder<boolean>) =>
  sql<boolean>`EXISTS (SELECT 1 FROM kiln_jobs AS job WHERE job.seq = kiln_files.job_seq AND job.retained = 'kept' AND ${condition})`

/** Files that callers can still read are those of done jobs. */
const { isNamed, listNamedBlobs } = namedBlobs(
  jobOfFile(sql<boolean>`job.status = 'done'`),
  jobOfFile(sql<boolean>`true`),
)

/** Rows per page, so that a listing never blocks the store for long. */
const pageSize = 500

/** Opens a store for inspection, also while a server runs on it. Returns `undefined` if there is no database yet. */
export const inspectSqlite = (
  options: SqliteOptions,
): Effect.Effect<StoreInspection | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.map(openReadOnly(options), (database) =>
    database === undefined ? undefined : inspectionOf(database, sqlitePlace(options)),
  )

const inspectionOf = (
  db: Database,
  { read: readPlace }: StorePlace["Service"],
  common = transactionsOf(db),
): StoreInspection => ({
  migrations: db.read("inspect.migrations", () => migrationStatus(db.connection)),
  schemaDrift: db.read("inspect.schemaDrift", () => schemaDrift(db, migrations, migrationStatus(db.connection))),
  damage: Effect.try({
    try: () => findDamage(db.connection),
    catch: (cause) => new StoreUnavailable({ operation: "inspect.damage", cause }),
  }),
  namedBlobs: Stream.paginate(firstBlobs, (cursor) =>
    Effect.map(
      common.read("inspect.namedBlobs", (tx) => listNamedBlobs(tx, cursor, pageSize)),
      ({ blobs, next }) => [blobs, Option.fromUndefinedOr(next)] as const,
    ),
  ),
  isNamed: (blob) => common.read("inspect.isNamed", (tx) => isNamed(tx, blob)),
  dueRetention: (periods) => db.read("inspect.dueRetention", (tx) => readDueRetention(tx, periods)),
  readRetention: common.read("inspect.readRetention", readRetention),
  duePurges: common.read("inspect.duePurges", readDuePurges),
  findSecret: (name) => common.read("inspect.findSecret", (tx) => findSecret(tx, name)),
  upkeep: db.read("inspect.upkeep", () => findUpkeep(db.connection)),
  countQueue: db.read("inspect.countQueue", countQueue),
  readBoard: db.read("inspect.readBoard", readBoard),
  listKeys: common.read("inspect.listKeys", listKeys),
  findLastChange: (action) => common.read("inspect.findLastChange", (tx) => findLastEntry(tx, action)),
  readPlace,
  listSchedules: common.read("inspect.listSchedules", listSchedules),
  countDeliveries: common.read("inspect.countDeliveries", countDeliveries),
  listWorkers: common.read("inspect.listWorkers", listWorkers),
  readLineage: common.read("inspect.readLineage", readLineage),
  findOrphans: (blobs) => db.read("inspect.findOrphans", (tx) => findOrphans(tx, blobs)),
  findUploadOrphans: (blobs) => db.read("inspect.findUploadOrphans", (tx) => findUploadOrphans(tx, blobs)),
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

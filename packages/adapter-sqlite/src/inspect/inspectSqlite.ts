import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type RawBuilder, sql } from "kysely"
import { isError, StoreUnavailable } from "@kiln/core/domain"
import type { StoreInspection, StorePlace } from "@kiln/core/ports"
import { commonChecks, namedBlobs } from "@kiln/sql-store"
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
import { readDueRetention } from "./dueRetention.ts"
import { countQueue } from "./countQueue.ts"
import { schemaDrift } from "./schemaDrift.ts"
import { findUpkeep } from "./upkeep.ts"

const jobOfFile = (condition: RawBuilder<boolean>) =>
  sql<boolean>`EXISTS (SELECT 1 FROM kiln_jobs AS job WHERE job.seq = kiln_files.job_seq AND job.retained = 'kept' AND ${condition})`

/** Files that callers can still read are those of done jobs. */
const named = namedBlobs(jobOfFile(sql<boolean>`job.status = 'done'`), jobOfFile(sql<boolean>`true`))

/** Opens a store for inspection, also while a server runs on it. Returns `undefined` if there is no database yet. */
export const inspectSqlite = (
  options: SqliteOptions,
): Effect.Effect<StoreInspection | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.map(openReadOnly(options), (database) =>
    database === undefined ? undefined : inspectionOf(database, sqlitePlace(options)),
  )

const inspectionOf = (db: Database, { read: readPlace }: StorePlace["Service"]): StoreInspection => ({
  ...commonChecks(transactionsOf(db).read, named),
  migrations: db.read("inspect.migrations", () => migrationStatus(db.connection)),
  schemaDrift: db.read("inspect.schemaDrift", () => schemaDrift(db, migrations, migrationStatus(db.connection))),
  damage: Effect.try({
    try: () => findDamage(db.connection),
    catch: (cause) => new StoreUnavailable({ operation: "inspect.damage", cause }),
  }),
  dueRetention: (periods) => db.read("inspect.dueRetention", (tx) => readDueRetention(tx, periods)),
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

import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type CopySource, CopySourceInUse, copyTables, openCopySource } from "@kiln/adapter-sqlite"
import type { MigrationStatus } from "@kiln/core/ports"
import { SchemaMismatch, type StoreUnavailable } from "@kiln/core/domain"
import { causeMessage, type CommandFailed, failed } from "../CommandFailed.ts"
import { describeDatabase, type PostgresPlace, type SqlitePlace } from "../database/DatabasePlace.ts"
import { databaseProblem } from "../database/databaseProblem.ts"
import { loadPostgres } from "../database/loadPostgres.ts"
import { storeMaintenance } from "../database/storeMaintenance.ts"
import { existsSync, renameSync } from "node:fs"

/** Number of rows of a table to copy. */
export interface TableCount {
  readonly table: string
  readonly count: number
}

interface Route {
  readonly from: SqlitePlace
  readonly to: PostgresPlace
}

/** Rejects schemas of other versions, because data of a newer version does not fit into this one's schema. */
const refuseOtherVersions = (where: string, { applied, changed, pending, unknown }: MigrationStatus) => {
  if (changed.length > 0) return Effect.fail(failed(`${where}: ${new SchemaMismatch({ changed }).message}`))
  if (unknown.length > 0)
    return Effect.fail(
      failed(
        `${where} was changed by a newer version of kiln (${unknown.join(", ")}): run kiln copy with that version`,
      ),
    )
  if (applied.length === 0) return Effect.fail(failed(`${where} has no kiln schema`))
  return pending.length > 0
    ? Effect.fail(failed(`${where} has the schema of an older version of kiln: run kiln migrate first`))
    : Effect.void
}

/** Opens the source exclusively while the scope is open. */
const openSource = (from: SqlitePlace): Effect.Effect<CopySource, CommandFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const source = yield* openCopySource(from.path).pipe(
      Effect.mapError((error) =>
        error instanceof CopySourceInUse
          ? failed(
              `${describeDatabase(from)} is open in another process: stop every kiln process that works on it, then copy`,
            )
          : databaseProblem(from, error.cause),
      ),
    )
    if (source === undefined) return yield* failed(`there is no database ${from.path}`)
    yield* refuseOtherVersions(describeDatabase(from), source.migrations)
    return source
  })

const countAll = (source: CopySource): Effect.Effect<ReadonlyArray<TableCount>, StoreUnavailable> =>
  Effect.forEach(copyTables, (table) => Effect.map(source.count(table), (count) => ({ table, count })))

/** Counts the records to copy. Reads only the source and changes nothing. */
export const countRecords = ({ from }: Route): Effect.Effect<ReadonlyArray<TableCount>, CommandFailed> =>
  Effect.gen(function* () {
    const source = yield* openSource(from)
    return yield* Effect.mapError(countAll(source), (error) => databaseProblem(from, error.cause))
  }).pipe(Effect.scoped)

/** Brings the target's schema up to date, separately from the copy, because the copy may have to be repeated. */
const prepareTarget = (to: PostgresPlace): Effect.Effect<void, CommandFailed> =>
  Effect.gen(function* () {
    const target = yield* storeMaintenance(to)
    yield* target.migrate
    yield* refuseOtherVersions(describeDatabase(to), yield* target.migrationStatus)
  })

/**
 * Copies all records in one transaction of the target: all or nothing. Jobs are copied unchanged; a job held by a worker
 * that is gone is claimed again when its lease ends. Returns the number of copied rows, verified on both sides.
 */
export const copyRecords = ({ from, to }: Route): Effect.Effect<ReadonlyArray<TableCount>, CommandFailed> =>
  Effect.gen(function* () {
    const { openCopyTarget } = yield* loadPostgres
    const source = yield* openSource(from)
    yield* prepareTarget(to)
    const target = yield* openCopyTarget(to).pipe(
      Effect.mapError((error) =>
        error._tag === "CopyTargetNotEmpty"
          ? failed(
              `${describeDatabase(to)} is not empty: its schema ${to.schema} has rows in ${error.tables.join(", ")}; choose another --schema, or drop that one`,
            )
          : databaseProblem(to, error.cause),
      ),
    )
    const counts = yield* Effect.mapError(countAll(source), (error) => databaseProblem(from, error.cause))
    for (const table of copyTables)
      yield* source
        .forEachPage(table, (rows) =>
          Effect.mapError(target.write(table, rows), (error) => databaseProblem(to, error.cause)),
        )
        .pipe(Effect.catchTag("StoreUnavailable", (error) => Effect.fail(databaseProblem(from, error.cause))))
    yield* target
      .commit(counts)
      .pipe(
        Effect.mapError((error) =>
          error._tag === "CopyCountsDiffer"
            ? failed(`only ${error.arrived} of ${error.sent} rows of ${error.table} arrived; nothing was copied`)
            : databaseProblem(to, error.cause),
        ),
      )
    return counts
  }).pipe(Effect.scoped)

/** Returns the path to which a copied database is renamed. */
const retiredPath = (path: string): string => `${path}.copied`

/** Fails if that path exists, so that no file is overwritten. */
export const refuseRetiredBefore = (path: string): Effect.Effect<void, CommandFailed> =>
  Effect.suspend(() =>
    existsSync(retiredPath(path))
      ? Effect.fail(
          failed(
            existsSync(path)
              ? `${retiredPath(path)} exists, so ${path} cannot be renamed to it afterwards: move it away first`
              : `the database ${path} no longer exists: it was copied before, and is now ${retiredPath(path)}`,
          ),
        )
      : Effect.void,
  )

/**
 * Renames the copied database. A server that is started on it by mistake would count as the same installation as the copy,
 * and would remove the blobs of every job that the copy has accepted since.
 */
export const retireSource = (path: string): Effect.Effect<string, CommandFailed> =>
  Effect.try({
    try: () => {
      renameSync(path, retiredPath(path))
      return retiredPath(path)
    },
    catch: (cause) =>
      failed(
        `all records were copied, but ${path} cannot be renamed (${causeMessage(cause)}): move it away, and never start kiln on it again`,
      ),
  })

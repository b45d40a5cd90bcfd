import { existsSync } from "node:fs"
import { resolve } from "node:path"
import SqliteDatabase from "better-sqlite3"
import type { SqlValue } from "../SqliteDatabase.ts"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "@kiln/core/domain"
import type { MigrationStatus } from "@kiln/core/ports"
import { migrationStatus } from "../migrate.ts"
import { isBusy, sqliteCode } from "../sqliteErrors.ts"
import { type CopyRow, copyRow, type CopyTable, countAll, selectAll } from "./copyTables.ts"

/** Milliseconds to wait for a process that is just exiting to close the database. */
const busyTimeoutMs = 2_000
/** Rows per page. */
const pageSize = 500

/** Another process has the database open. */
export class CopySourceInUse extends Data.TaggedError("CopySourceInUse") {}

/** A store to be copied. It is locked exclusively, so it cannot change and no worker can run on it. */
export interface CopySource {
  readonly migrations: MigrationStatus
  readonly count: (table: CopyTable) => Effect.Effect<number, StoreUnavailable>
  /** Passes all rows of a table to `use`, a page at a time. */
  readonly forEachPage: <E, R>(
    table: CopyTable,
    use: (rows: ReadonlyArray<CopyRow>) => Effect.Effect<void, E, R>,
  ) => Effect.Effect<void, E | StoreUnavailable, R>
}

/** Opens a database for copying and locks it exclusively, for the lifetime of the scope. Returns `undefined` if the file does not exist. */
export const openCopySource = (
  path: string,
): Effect.Effect<CopySource | undefined, StoreUnavailable | CopySourceInUse, Scope.Scope> =>
  Effect.gen(function* () {
    const file = resolve(path)
    if (!existsSync(file)) return undefined
    const connection = yield* Effect.acquireRelease(
      attempt(() => new SqliteDatabase(file, { timeout: busyTimeoutMs })),
      (opened) => Effect.sync(() => opened.close()),
    )
    const migrations = yield* attempt(() => {
      // Every open connection to a database in WAL mode holds a lock, so this fails if there is another one.
      connection.pragma("locking_mode = EXCLUSIVE")
      connection.exec("BEGIN IMMEDIATE")
      return migrationStatus(connection)
    }).pipe(
      Effect.catchIf(
        (error) => isBusy(sqliteCode(error.cause) ?? ""),
        () => new CopySourceInUse(),
      ),
    )
    return sourceOf(connection, migrations)
  })

const sourceOf = (connection: SqliteDatabase, migrations: MigrationStatus): CopySource => ({
  migrations,
  count: (table) =>
    attempt(() => {
      const row = connection.prepare(countAll(table)).get([]) as { readonly count: number }
      return row.count
    }),
  forEachPage: (table, use) =>
    Effect.acquireUseRelease(
      attempt(() => connection.prepare(selectAll(table)).iterate([]) as IterableIterator<SourceRow>),
      (rows) =>
        Effect.gen(function* () {
          while (true) {
            const page = yield* attempt(() => nextPage(rows))
            if (page.length === 0) return
            yield* use(page.map((row) => copyRow(table, row)))
          }
        }),
      // A connection cannot run other statements while one is only partly read.
      (rows) => Effect.sync(() => void rows.return?.()),
    ),
})

const nextPage = (rows: Iterator<SourceRow>): ReadonlyArray<SourceRow> => {
  const page: Array<SourceRow> = []
  while (page.length < pageSize) {
    const next = rows.next()
    if (next.done === true) break
    page.push(next.value)
  }
  return page
}

type SourceRow = Readonly<Record<string, SqlValue>>

const attempt = <A>(run: () => A): Effect.Effect<A, StoreUnavailable> =>
  Effect.try({ try: run, catch: (cause) => new StoreUnavailable({ operation: "copy", cause }) })

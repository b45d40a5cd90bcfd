import { closeSync, existsSync, fsyncSync, openSync } from "node:fs"
import { resolve } from "node:path"
import SqliteDatabase from "better-sqlite3"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "@kiln/core/domain"
import { type MigrationStatus, placeSecret } from "@kiln/core/ports"
import { isBusy, sqliteCode, type SqlValue } from "./SqliteDatabase.ts"
import { tablePrefix } from "./columns.ts"
import { migrationStatus } from "./migrations/migrate.ts"

/** Milliseconds SQLite waits for another process. Commands have no event loop that others depend on. */
const busyTimeoutMs = 5_000

const attempt = <A>(operation: string, run: () => A): Effect.Effect<A, StoreUnavailable> =>
  Effect.try({ try: run, catch: (cause) => new StoreUnavailable({ operation, cause }) })

const opened = (path: string, options: { readonly readonly?: boolean; readonly timeout: number }) =>
  Effect.acquireRelease(
    attempt("open", () => new SqliteDatabase(path, options)),
    (connection) => Effect.sync(() => connection.close()),
  )

/** The counted tables of a snapshot. */
const counted = ["projects", "api_keys", "jobs", "uploads", "files", "charges", "audit"] as const

/** Number of records in a snapshot. */
export type SnapshotCounts = Readonly<Record<(typeof counted)[number], number>>

/** Creates an empty file that only its owner can read. SQLite would let everyone read it. */
const createPrivate = (path: string): void => closeSync(openSync(path, "wx", 0o600))

const syncFile = (path: string): void => {
  const descriptor = openSync(path, "r+")
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Writes the database as it is at this moment to a new file, durably, also while servers work on it. The file is one database without
 * a log beside it, and contains nothing that was erased before. Returns the counts of its records.
 */
export const snapshotSqlite = (path: string, to: string): Effect.Effect<SnapshotCounts, StoreUnavailable> =>
  Effect.gen(function* () {
    const source = yield* opened(path, { readonly: true, timeout: busyTimeoutMs })
    yield* attempt("snapshot", () => {
      createPrivate(to)
      source.prepare("VACUUM INTO ?").run([to])
      syncFile(to)
    })
    const copy = yield* opened(to, { readonly: true, timeout: busyTimeoutMs })
    return yield* attempt("count", () => {
      const count = (table: string) =>
        (copy.prepare(`SELECT count(*) AS count FROM ${tablePrefix}${table}`).get([]) as { readonly count: number })
          .count
      return Object.fromEntries(counted.map((table) => [table, count(table)])) as SnapshotCounts
    })
  }).pipe(Effect.scoped)

/** Another process holds the lock. */
export class LockHeld extends Error {
  override readonly name = "LockHeld"
  readonly _tag = "LockHeld"
}

/** Holds a lock while the scope is open. It ends with the process, however that ends. The lock is a database at `path`. */
export const holdLock = (path: string): Effect.Effect<void, StoreUnavailable | LockHeld, Scope.Scope> =>
  Effect.gen(function* () {
    yield* attempt("lock", () => closeSync(openSync(path, "a", 0o600)))
    const connection = yield* opened(path, { timeout: 0 })
    yield* attempt("lock", () => connection.exec("BEGIN EXCLUSIVE")).pipe(
      Effect.catch((error) => Effect.fail(isBusy(sqliteCode(error.cause) ?? "") ? new LockHeld() : error)),
    )
  })

/** A copied row: times, counts and texts as stored, flags as booleans. */
export type CopyRow = Readonly<Record<string, string | number | boolean | null | Uint8Array>>

/**
 * The copied tables, in an order in which no row refers to a later table. `workers` is left out because workers publish again,
 * `rate_buckets` because a bucket without a row is full,
 * `minutes` because only charts show them, `store_time` because it belongs to this store, and
 * `kept_bytes` because the target counts them again. Rows are copied in order of creation, where there is one.
 */
const orders = {
  switches: "name",
  paused_kinds: "kind",
  project_limits: "project_id",
  prices: "id",
  projects: "seq",
  api_keys: "seq",
  key_secrets: "rowid",
  secrets: "name",
  audit: "number",
  operator_tokens: "seq",
  uploads: "seq",
  fairness: "id",
  lanes: "id",
  jobs: "seq",
  checkpoints: "job_seq, step",
  attempts: "job_seq, number",
  waits: "job_seq, first_attempt",
  parked: "job_seq",
  signals: "job_seq, name",
  chunks: "job_seq, position",
  files: "seq",
  charges: "rowid",
  closed_ledger: "id",
  purges: "id",
  retention_rules: "kind, publisher",
  blob_lineage: "id",
  served_kinds: "kind",
  spend_caps: "owner",
  spending: "owner, entry",
  schedules: "name",
  job_labels: "job_seq, label",
  job_scopes: "scope",
  replaced_keys: "key_id, idempotency_key",
  deliveries: "job_id",
} as const

export type CopyTable = keyof typeof orders
export const copyTables = Object.keys(orders) as ReadonlyArray<CopyTable>

const countAll = (table: CopyTable): string =>
  `SELECT count(*) AS count FROM ${tablePrefix}${table}${conditionOf(table)}`

/** The target is another place, and the source is not used any more. */
const conditionOf = (table: CopyTable): string => (table === "secrets" ? ` WHERE name <> '${placeSecret}'` : "")

/** Selects all columns, including those of later migrations, so that a target without such a column reports it. */
const selectAll = (table: CopyTable): string => {
  // Only short requests are in the rows of their jobs.
  if (table === "jobs")
    return "SELECT kiln_jobs.*, kiln_job_data.request AS long_request FROM kiln_jobs LEFT JOIN kiln_job_data ON job_seq = seq ORDER BY seq"
  if (table === "job_labels")
    return "SELECT label, created_at, id AS job_id, job_seq FROM kiln_job_labels JOIN kiln_jobs ON seq = job_seq ORDER BY job_seq, label"
  return table === "checkpoints"
    ? "SELECT kiln_jobs.id AS job_id, step, value FROM kiln_checkpoints JOIN kiln_jobs ON kiln_jobs.seq = job_seq ORDER BY job_seq, step"
    : `SELECT * FROM ${tablePrefix}${table}${conditionOf(table)} ORDER BY ${orders[table]}`
}

const flags = new Set(["enabled", "active", "erased", "held"])

const copiedJob = ({ long_request: longRequest, request, ...row }: CopyRow): CopyRow => ({
  ...row,
  request: request ?? longRequest ?? null,
})

/** `ranks` is an optimization of this store's claims. */
const laneOf = ({ ranks: _, ...row }: CopyRow): CopyRow => row

/** The driver returns Node buffers, whose JSON is not a list of bytes. */
const plain = (value: SqlValue): SqlValue => (value instanceof Uint8Array ? Uint8Array.from(value) : value)

const copyRow = (table: CopyTable, row: Readonly<Record<string, SqlValue>>): CopyRow => {
  const copied: CopyRow = Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, flags.has(name) ? value === 1 : plain(value)]),
  )
  if (table === "lanes") return laneOf(copied)
  return table === "jobs" ? copiedJob(copied) : copied
}

/** Milliseconds to wait for a process that is just exiting to close the database. */
const exitTimeoutMs = 2_000
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
    const connection = yield* opened(file, { timeout: exitTimeoutMs })
    const migrations = yield* attempt("copy", () => {
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
    attempt("copy", () => {
      const row = connection.prepare(countAll(table)).get([]) as { readonly count: number }
      return row.count
    }),
  forEachPage: (table, use) =>
    Effect.acquireUseRelease(
      attempt("copy", () => connection.prepare(selectAll(table)).iterate([]) as IterableIterator<SourceRow>),
      (rows) =>
        Effect.gen(function* () {
          while (true) {
            const page = yield* attempt("copy", () => nextPage(rows))
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

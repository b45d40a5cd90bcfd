import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import SqliteDatabase from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { type OptionNames, requireFlag, requireNumber, requireOptions, StoreUnavailable } from "@kiln/core/domain"
import type { MigrationStatus } from "@kiln/core/ports"
import { Database } from "./Database.ts"
import { DatabaseFile } from "./disk/DatabaseFile.ts"
import { explained, isFullDisk, systemCode } from "./disk/fullDisk.ts"
import { keepReserve, returnFreeSpace, truncateLogAfterErasures } from "./disk/freeSpace.ts"
import { defaultReserveBytes, Reserve } from "./disk/Reserve.ts"
import { migrate, migrationStatus } from "./migrations/migrate.ts"
import { isBusy, sqliteCode } from "./SqliteDatabase.ts"
import { migrations } from "./migrations/index.ts"

export interface SqliteOptions {
  /**
   * The database file. The file and its directory are created if they do not exist, readable by their owner only. The file may
   * be one that your program already uses: the names of kiln's tables, indexes and triggers begin with `kiln_`.
   */
  readonly path: string
  /**
   * Milliseconds that SQLite itself waits for the commit of another process, default 10. This wait blocks the event loop, so
   * keep it short: kiln retries afterwards and sleeps between attempts.
   */
  readonly busyTimeoutMs?: number | undefined
  /** Milliseconds after which a step that cannot acquire the lock fails with `StoreUnavailable`, default 5,000. */
  readonly retryForMs?: number | undefined
  /**
   * Whether a worker may run the jobs of a copy of the file, default false: a copy has the queued jobs of the original, which runs
   * them too, so a worker refuses to start on one until it is adopted (`operator.adoptCopy`). For databases that a program copies
   * itself, such as templates of tests, and for file systems whose files change their identity.
   */
  readonly allowCopies?: boolean | undefined
  /**
   * Size in bytes of the reserve, default 16,777,216, and at most a sixteenth of the disk: a file `<path>-reserve`, which is deleted when
   * the disk is full, so that jobs and their data can still be deleted, and made again once there is room. 0 for none.
   */
  readonly reserveBytes?: number | undefined
}

const optionNames: OptionNames<SqliteOptions> = {
  path: true,
  busyTimeoutMs: true,
  retryForMs: true,
  allowCopies: true,
  reserveBytes: true,
}

/** Throws `TypeError` for unknown options and invalid values. */
export const checkSqliteOptions = (options: SqliteOptions): void => {
  requireOptions("sqliteStore()", options, optionNames)
  const { allowCopies, busyTimeoutMs = 0, path, reserveBytes = 0, retryForMs = 0 } = options
  if (typeof path !== "string" || path === "")
    throw new TypeError("sqliteStore() requires the option path, the database file")
  // The maximum of timers, and of SQLite's own timeout.
  requireNumber("busyTimeoutMs", busyTimeoutMs, { least: 0, most: 2 ** 31 - 1 })
  requireNumber("retryForMs", retryForMs, { least: 0, most: 2 ** 31 - 1 })
  requireFlag("allowCopies", allowCopies)
  requireNumber("reserveBytes", reserveBytes, { least: 0, most: 2 ** 40 })
}

const busyPauseMs = 25

/** Opens the database for the lifetime of the scope and migrates it to the latest schema. */
export const openDatabase = (options: SqliteOptions): Effect.Effect<Database, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const { allowCopies = false, busyTimeoutMs = 10, retryForMs = 5_000 } = options
    const path = resolve(options.path)
    const reserve = yield* reserveOf(options)
    const connection = yield* Effect.acquireRelease(
      attempt("openDatabase", path, () => {
        const problem = nodeProblem(process.versions.node)
        if (problem !== undefined) throw new TypeError(problem)
        prepareFile(path)
        return new SqliteDatabase(path, { timeout: busyTimeoutMs })
      }),
      (opened) => Effect.sync(() => opened.close()),
    )
    // If several processes start at once, the first switches the file to WAL and the others find it locked meanwhile.
    yield* makingRoom(
      reserve,
      attempt("openDatabase", path, () => configure(connection)),
    ).pipe(
      Effect.retry({
        while: (error) => isBusy(sqliteCode(error.cause) ?? ""),
        schedule: Schedule.spaced(busyPauseMs),
        times: Math.ceil(retryForMs / busyPauseMs),
      }),
    )
    const file = new DatabaseFile({ path, reserve, mayChange: allowCopies })
    const database = new Database(connection, { retryForMs, file })
    database.limitLog("usual")
    yield* migrate(database)
    database.useStoreTime()
    // Logs a clock that is behind the stored time.
    yield* database.read("openDatabase", ({ now }) => now)
    yield* truncateLogAfterErasures(database)
    yield* returnFreeSpace(database)
    yield* keepReserve(database)
    return database
  })

/** Milliseconds SQLite waits for another process. Commands have no event loop that others depend on. */
const readOnlyBusyTimeoutMs = 1_000
const readOnlyRetryForMs = 5_000

/**
 * Opens the database for reading, for the lifetime of the scope, without migrating it or creating files. A server may be running
 * on it. Returns `undefined` if there is no database.
 */
export const openReadOnly = (
  options: Pick<SqliteOptions, "path" | "reserveBytes">,
): Effect.Effect<Database | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const path = resolve(options.path)
    if (!existsSync(path)) return undefined
    const reserve = yield* reserveOf(options)
    const connection = yield* Effect.acquireRelease(
      attempt("openReadOnly", path, () => new SqliteDatabase(path, { timeout: readOnlyBusyTimeoutMs, readonly: true })),
      (reader) => Effect.sync(() => reader.close()),
    )
    // Where no other process has the database open, a reader too needs room for a moment: for the file of the shared memory.
    yield* makingRoom(
      reserve,
      attempt("openReadOnly", path, () => connection.pragma("schema_version")),
    )
    const file = new DatabaseFile({ path, reserve, mayChange: true })
    const database = new Database(connection, { retryForMs: readOnlyRetryForMs, file })
    database.useStoreTime()
    return database
  })

/** Returns why this version of Node cannot load the driver, or `undefined` if it can. Older versions crash without a message. */
export const nodeProblem = (version: string): string | undefined => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  if (major > 22 || (major === 22 && minor >= 14)) return undefined
  return `@kiln/adapter-sqlite needs Node 22.14 or newer; this is Node ${version}`
}

const attempt = <A>(operation: string, path: string, run: () => A): Effect.Effect<A, StoreUnavailable> =>
  Effect.try({ try: run, catch: (cause) => new StoreUnavailable({ operation, cause: explained(cause, path) }) })

/** The reserve, which is made again when the scope closes if it was given up and there is room by then. */
const reserveOf = ({ path, reserveBytes = defaultReserveBytes }: Pick<SqliteOptions, "path" | "reserveBytes">) =>
  Effect.acquireRelease(
    Effect.sync(() => new Reserve(resolve(path), reserveBytes)),
    (reserve) => Effect.sync(() => reserve.restore()),
  )

/** Runs a step again after giving up the reserve, if a full disk prevents it. */
const makingRoom = <A>(reserve: Reserve, step: Effect.Effect<A, StoreUnavailable>) =>
  Effect.catchIf(
    step,
    (error) => isFullDisk(error.cause) && reserve.giveUp(),
    () => step,
  )

/**
 * Creates the file with private permissions, because it holds secrets; SQLite gives the log beside it the same mode. A new
 * directory is synced too: without it, a durable file could be lost in a power failure.
 */
const prepareFile = (path: string): void => {
  const directory = dirname(path)
  const firstMade = makeDirectory(directory)
  if (firstMade !== undefined)
    for (let made = directory; made.length >= firstMade.length; made = dirname(made)) syncDirectory(dirname(made))
  try {
    closeSync(openSync(path, "wx", 0o600))
    syncDirectory(directory)
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error
  }
}

/**
 * Creates a directory that only this user may read, and those above it that are missing. Returns the first one that it created. The recursive
 * `mkdirSync` of Node never returns where the system refuses a directory with ENOENT, such as in `/proc`.
 */
export const makeDirectory = (path: string): string | undefined => {
  const parent = dirname(path)
  const firstMade = parent === path || existsSync(parent) ? undefined : makeDirectory(parent)
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // A link to a disk that is not mounted is in the way, and is said to be missing.
    const found = systemCode(error) === "EEXIST" ? statSync(path) : statSync(path, { throwIfNoEntry: false })
    if (found?.isDirectory() !== true) throw error
    return firstMade
  }
  return firstMade ?? path
}

const syncDirectory = (path: string): void => {
  // Windows cannot open directories; its file systems order directory entries themselves.
  if (process.platform === "win32") return
  const descriptor = openSync(path, "r")
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

const configure = (connection: SqliteDatabase): void => {
  // Lets `returnFreeSpace` shorten the file. It must be set before the first page is written; in other files, it would only write.
  if (connection.pragma("page_count", { simple: true }) === 0) connection.pragma("auto_vacuum = INCREMENTAL")
  const mode = connection.pragma("journal_mode = WAL", { simple: true })
  if (mode !== "wal")
    throw new Error(`this file system does not support write-ahead logging (journal mode ${String(mode)})`)
  // better-sqlite3 is compiled to use NORMAL with WAL, which may lose acknowledged commits in a power failure.
  connection.pragma("synchronous = FULL")
  // On macOS, fsync does not reach the disk without these.
  connection.pragma("fullfsync = ON")
  connection.pragma("checkpoint_fullfsync = ON")
  connection.pragma("foreign_keys = ON")
  // Overwrites erased content instead of only unlinking it.
  connection.pragma("secure_delete = ON")
  connection.pragma("trusted_schema = OFF")
  connection.pragma("temp_store = MEMORY")
  // Bytes to which the log is cut back after a burst.
  connection.pragma("journal_size_limit = 67108864")
}

const status = (options: SqliteOptions): Effect.Effect<MigrationStatus, StoreUnavailable> =>
  Effect.gen(function* () {
    const database = yield* openReadOnly(options)
    if (database === undefined) return { applied: [], pending: migrations, unknown: [], changed: [] }
    return yield* database.read("migrationStatus", () => migrationStatus(database.connection))
  }).pipe(Effect.scoped)

/** Migrations without opening the store, which brings its schema up to date by itself. */
export const sqliteMigrations = {
  /** Reads how far the schema is. Changes nothing; if there is no database yet, all migrations are pending. */
  status,
  /** Applies all pending migrations, or none if one fails. Returns the names of the applied ones, in order. */
  apply: (options: SqliteOptions): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
    Effect.gen(function* () {
      const before = yield* status(options)
      yield* Effect.scoped(openDatabase(options))
      const left = new Set((yield* status(options)).pending.map(({ name }) => name))
      return before.pending.map(({ name }) => name).filter((name) => !left.has(name))
    }),
} as const

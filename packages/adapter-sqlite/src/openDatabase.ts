import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from "node:fs"
import { dirname, resolve } from "node:path"
import SqliteDatabase from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import {
  isError,
  type OptionNames,
  requireFlag,
  requireNumber,
  requireOptions,
  StoreUnavailable,
} from "@kiln/core/domain"
import { Database } from "./Database.ts"
import { migrate } from "./migrate.ts"
import { isBusy, sqliteCode } from "./sqliteErrors.ts"
import { returnFreeSpace } from "./returnFreeSpace.ts"
import { truncateLogAfterErasures } from "./truncateLogAfterErasures.ts"

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
}

const optionNames: OptionNames<SqliteOptions> = {
  path: true,
  busyTimeoutMs: true,
  retryForMs: true,
  allowCopies: true,
}

/** Throws `TypeError` for unknown options and invalid values. */
export const checkSqliteOptions = (options: SqliteOptions): void => {
  requireOptions("sqliteStore()", options, optionNames)
  const { allowCopies, busyTimeoutMs = 0, path, retryForMs = 0 } = options
  if (typeof path !== "string" || path === "")
    throw new TypeError("sqliteStore() requires the option path, the database file")
  // The maximum of timers, and of SQLite's own timeout.
  requireNumber("busyTimeoutMs", busyTimeoutMs, { least: 0, most: 2 ** 31 - 1 })
  requireNumber("retryForMs", retryForMs, { least: 0, most: 2 ** 31 - 1 })
  requireFlag("allowCopies", allowCopies)
}

const busyPauseMs = 25

/** Opens the database for the lifetime of the scope and migrates it to the latest schema. */
export const openDatabase = (options: SqliteOptions): Effect.Effect<Database, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const { busyTimeoutMs = 10, retryForMs = 5_000 } = options
    const connection = yield* Effect.acquireRelease(
      attempt("openDatabase", () => {
        const problem = nodeProblem(process.versions.node)
        if (problem !== undefined) throw new TypeError(problem)
        const path = resolve(options.path)
        prepareFile(path)
        return new SqliteDatabase(path, { timeout: busyTimeoutMs })
      }),
      (opened) => Effect.sync(() => opened.close()),
    )
    // If several processes start at once, the first switches the file to WAL and the others find it locked meanwhile.
    yield* attempt("openDatabase", () => configure(connection)).pipe(
      Effect.retry({
        while: (error) => isBusy(sqliteCode(error.cause) ?? ""),
        schedule: Schedule.spaced(busyPauseMs),
        times: Math.ceil(retryForMs / busyPauseMs),
      }),
    )
    const database = new Database(connection, { retryForMs })
    yield* migrate(database)
    database.useStoreTime()
    // Logs a clock that is behind the stored time.
    yield* database.read("openDatabase", ({ now }) => now)
    yield* truncateLogAfterErasures(database)
    yield* returnFreeSpace(database)
    return database
  })

/** Milliseconds SQLite waits for another process. Commands have no event loop that others depend on. */
const readOnlyBusyTimeoutMs = 1_000
const readOnlyRetryForMs = 5_000

/**
 * Opens the database for reading, for the lifetime of the scope, without migrating it or creating files. A server may be running
 * on it. Returns `undefined` if there is no database.
 */
export const openReadOnly = (path: string): Effect.Effect<Database | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const file = resolve(path)
    if (!existsSync(file)) return undefined
    const connection = yield* Effect.acquireRelease(
      attempt("openReadOnly", () => new SqliteDatabase(file, { timeout: readOnlyBusyTimeoutMs, readonly: true })),
      (reader) => Effect.sync(() => reader.close()),
    )
    const database = new Database(connection, { retryForMs: readOnlyRetryForMs })
    database.useStoreTime()
    return database
  })

/** Returns why this version of Node cannot load the driver, or `undefined` if it can. Older versions crash without a message. */
export const nodeProblem = (version: string): string | undefined => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  if (major > 22 || (major === 22 && minor >= 14)) return undefined
  return `@kiln/adapter-sqlite needs Node 22.14 or newer; this is Node ${version}`
}

const attempt = <A>(operation: string, run: () => A): Effect.Effect<A, StoreUnavailable> =>
  Effect.try({ try: run, catch: (cause) => new StoreUnavailable({ operation, cause }) })

/**
 * Creates the file with private permissions, because it holds secrets; SQLite gives the log beside it the same mode. A new
 * directory is synced too: without it, a durable file could be lost in a power failure.
 */
const prepareFile = (path: string): void => {
  const directory = dirname(path)
  const firstMade = mkdirSync(directory, { recursive: true, mode: 0o700 })
  if (firstMade !== undefined)
    for (let made = directory; made.length >= firstMade.length; made = dirname(made)) syncDirectory(dirname(made))
  try {
    closeSync(openSync(path, "wx", 0o600))
    syncDirectory(directory)
  } catch (error) {
    if (!(isError(error) && "code" in error && error.code === "EEXIST")) throw error
  }
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
  // Pages after which a commit copies the log into the database, 16 MB instead of 4: creating a single job writes eight pages, most of
  // them again and again, and copying takes two more syncs.
  connection.pragma("wal_autocheckpoint = 4000")
  // Bytes to which the log is cut back after a burst.
  connection.pragma("journal_size_limit = 67108864")
}

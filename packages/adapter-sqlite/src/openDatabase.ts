import { closeSync, fsyncSync, mkdirSync, openSync } from "node:fs"
import { dirname, resolve } from "node:path"
import SqliteDatabase from "better-sqlite3"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { isError, type OptionNames, requireNumber, requireOptions, StoreUnavailable } from "@kiln/core/domain"
import { Database } from "./Database.ts"
import { migrate } from "./migrate.ts"
import { nodeProblem } from "./nodeProblem.ts"
import { isBusy, sqliteCode } from "./sqliteErrors.ts"
import { truncateLogAfterErasures } from "./truncateLogAfterErasures.ts"

export interface SqliteOptions {
  /**
   * The database file. It and its directory are made where they do not exist, readable by their owner only. It may be a file
   * of your own: the names of kiln's tables, indexes and triggers begin with `kiln_`. (A file that kiln made before they did keeps
   * its names.)
   */
  readonly path: string
  /**
   * Milliseconds SQLite itself waits for another process's commit, default 10. They block the event
   * loop, so keep them short: longer waits are slept between tries.
   */
  readonly busyTimeoutMs?: number | undefined
  /** Milliseconds after which a step that cannot get the lock fails with `StoreUnavailable`, default 5,000. */
  readonly retryForMs?: number | undefined
}

const optionNames: OptionNames<SqliteOptions> = { path: true, busyTimeoutMs: true, retryForMs: true }

/** Throws `TypeError` for options that do not exist or mean nothing. */
export const checkSqliteOptions = (options: SqliteOptions): void => {
  requireOptions("sqliteStore()", options, optionNames)
  const { busyTimeoutMs = 0, path, retryForMs = 0 } = options
  if (typeof path !== "string" || path === "") throw new TypeError("sqliteStore() needs the path of its database file")
  // A timer's, and SQLite's own, longest.
  requireNumber("busyTimeoutMs", busyTimeoutMs, { least: 0, most: 2 ** 31 - 1 })
  requireNumber("retryForMs", retryForMs, { least: 0, most: 2 ** 31 - 1 })
}

const busyPauseMs = 25

/** Opens the database for the life of the scope, brought up to the latest schema. */
export const openDatabase = (options: SqliteOptions): Effect.Effect<Database, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const { busyTimeoutMs = 10, retryForMs = 5_000 } = options
    const connection = yield* Effect.acquireRelease(
      attempt(() => {
        const problem = nodeProblem(process.versions.node)
        if (problem !== undefined) throw new TypeError(problem)
        const path = resolve(options.path)
        prepareFile(path)
        return new SqliteDatabase(path, { timeout: busyTimeoutMs })
      }),
      (opened) => Effect.sync(() => opened.close()),
    )
    // The first process of several that start at once switches to WAL; the others find the file locked meanwhile.
    yield* attempt(() => configure(connection)).pipe(
      Effect.retry({
        while: (error) => isBusy(sqliteCode(error.cause) ?? ""),
        schedule: Schedule.spaced(busyPauseMs),
        times: Math.ceil(retryForMs / busyPauseMs),
      }),
    )
    const database = new Database(connection, { retryForMs })
    yield* migrate(database)
    database.countTime()
    yield* database.read("openDatabase", () => undefined)
    yield* truncateLogAfterErasures(database)
    return database
  })

const attempt = <A>(run: () => A): Effect.Effect<A, StoreUnavailable> =>
  Effect.try({ try: run, catch: (cause) => new StoreUnavailable({ operation: "openDatabase", cause }) })

/**
 * The file holds secrets, so it is private from its first moment; SQLite gives the log beside it
 * the same mode. A new directory must itself survive a power loss, or the durable file in it would not.
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
  // Windows cannot open directories; its file systems keep their entries in order by themselves.
  if (process.platform === "win32") return
  const descriptor = openSync(path, "r")
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

const configure = (connection: SqliteDatabase): void => {
  const mode = connection.pragma("journal_mode = WAL", { simple: true })
  if (mode !== "wal")
    throw new Error(`this file system does not support write-ahead logging (journal mode ${String(mode)})`)
  // better-sqlite3 is compiled to relax WAL to NORMAL, which may lose acknowledged commits with the power.
  connection.pragma("synchronous = FULL")
  // On macOS alone, fsync does not reach the disk without these.
  connection.pragma("fullfsync = ON")
  connection.pragma("checkpoint_fullfsync = ON")
  connection.pragma("foreign_keys = ON")
  // What was erased is overwritten, not just unlinked.
  connection.pragma("secure_delete = ON")
  connection.pragma("trusted_schema = OFF")
  connection.pragma("temp_store = MEMORY")
  // After a burst the log is cut back to this many bytes.
  connection.pragma("journal_size_limit = 67108864")
}

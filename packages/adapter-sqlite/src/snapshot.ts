import { closeSync, fsyncSync, openSync } from "node:fs"
import SqliteDatabase from "better-sqlite3"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "@kiln/core/domain"
import { tablePrefix } from "./columns.ts"
import { isBusy, sqliteCode } from "./sqliteErrors.ts"

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

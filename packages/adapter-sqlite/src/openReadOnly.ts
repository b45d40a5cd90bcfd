import { existsSync } from "node:fs"
import { resolve } from "node:path"
import SqliteDatabase from "better-sqlite3"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "@kiln/core/domain"
import { Database } from "./Database.ts"

/** Milliseconds SQLite waits for another process. Commands have no event loop that others wait for. */
const busyTimeoutMs = 1_000
const retryForMs = 5_000

/**
 * Opens the database to look at it, for the life of the scope, as it is: nothing is migrated, and no file is made.
 * `undefined` where there is none. A server may be running on it.
 */
export const openReadOnly = (path: string): Effect.Effect<Database | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const file = resolve(path)
    if (!existsSync(file)) return undefined
    const connection = yield* Effect.acquireRelease(
      Effect.try({
        try: () => new SqliteDatabase(file, { timeout: busyTimeoutMs, readonly: true }),
        catch: (cause) => new StoreUnavailable({ operation: "openReadOnly", cause }),
      }),
      (opened) => Effect.sync(() => opened.close()),
    )
    const database = new Database(connection, { retryForMs })
    database.countTime()
    return database
  })

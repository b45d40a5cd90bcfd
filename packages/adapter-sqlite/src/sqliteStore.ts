import { type StoreAdapter, storeAdapter } from "@kiln/core/ports"
import type { BetterSqliteDatabase } from "./callers/BetterSqliteDatabase.ts"
import type { KyselyTransaction } from "./callers/KyselyTransaction.ts"
import { checkSqliteOptions, type SqliteOptions } from "./openDatabase.ts"
import { SqliteStores } from "./SqliteStores.ts"

/**
 * All record stores in one SQLite file, for programs without Effect: see `SqliteStores`. As a transaction of the caller's it takes
 * a better-sqlite3 database that has the same file open and is in a transaction, also without waiting, or a transaction
 * of Kysely over `SqliteDialect`. Throws `TypeError` for options that cannot be used.
 *
 * SQLite has one writer: while such a transaction has written and is open, other transactions and the workers wait for
 * it. Keep it short, and begin it with `BEGIN IMMEDIATE` where it reads before it writes.
 */
export const sqliteStore = (
  options: SqliteOptions,
): StoreAdapter<KyselyTransaction | BetterSqliteDatabase, BetterSqliteDatabase> => {
  checkSqliteOptions(options)
  return storeAdapter<KyselyTransaction | BetterSqliteDatabase, BetterSqliteDatabase>(SqliteStores.layer(options))
}

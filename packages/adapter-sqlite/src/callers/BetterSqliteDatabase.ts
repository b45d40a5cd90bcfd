import type { SqliteDatabase } from "../SqliteDatabase.ts"
import { PreparedStatements } from "../Transaction.ts"
import type { StoreFile } from "./StoreFile.ts"

/** A connection of better-sqlite3 of any version: the members that are checked before it is used. */
export interface BetterSqliteDatabase {
  readonly open: boolean
  readonly inTransaction: boolean
  prepare(source: string): object
  pragma(source: string): unknown
}

export const isBetterSqlite = (handle: unknown): handle is SqliteDatabase =>
  typeof handle === "object" &&
  handle !== null &&
  ["prepare", "pragma"].every((name) => typeof Reflect.get(handle, name) === "function") &&
  typeof Reflect.get(handle, "inTransaction") === "boolean"

/** Statements that were prepared on the connections of callers. */
const known = new WeakMap<SqliteDatabase, PreparedStatements>()

/** Returns the statements of a caller's connection. Throws `TypeError` unless it is in a transaction on the store's own file. */
export const statementsOf = (connection: SqliteDatabase, file: StoreFile): PreparedStatements => {
  if (!connection.inTransaction) throw new TypeError("the database handle is not in a transaction")
  file.expectSame(connection.pragma("database_list"))
  const statements = known.get(connection) ?? new PreparedStatements(connection)
  known.set(connection, statements)
  return statements
}

import { createHash } from "node:crypto"
import type { Migration } from "@kiln/core/ports"
import type { AppliedMigration } from "@kiln/sql-store"
import type { SqliteDatabase } from "../SqliteDatabase.ts"

/** Has a name that no program's own migrations use, since the file may be shared. */
const migrationTable = "kiln_migrations"

/** Creates the table of applied migrations if it is missing, as the first version did. A migration adds the digests. */
export const createMigrationTable = `CREATE TABLE IF NOT EXISTS ${migrationTable} (name TEXT NOT NULL PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`

export const recordMigration = `INSERT INTO ${migrationTable} (name, applied_at) VALUES (?, ?)`

export const digestOf = ({ sql }: Migration): string => createHash("sha256").update(sql).digest("hex")

const hasDigests = (connection: SqliteDatabase): boolean =>
  connection.prepare("SELECT 1 FROM pragma_table_info(?) WHERE name = 'digest'").get([migrationTable]) !== undefined

/** Keeps the digests of applied migrations that have none. Does nothing before the migration that adds the column. */
export const recordDigests = (connection: SqliteDatabase, migrations: ReadonlyArray<Migration>): void => {
  if (!hasDigests(connection)) return
  const record = connection.prepare(`UPDATE ${migrationTable} SET digest = ? WHERE name = ? AND digest IS NULL`)
  for (const migration of migrations) record.run([digestOf(migration), migration.name])
}

/** Reads the migrations that any version has applied. */
export const appliedMigrations = (connection: SqliteDatabase): ReadonlyArray<AppliedMigration> => {
  const table = connection
    .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?")
    .get([migrationTable])
  if (table === undefined) return []
  const digest = hasDigests(connection) ? "digest" : "NULL AS digest"
  return connection
    .prepare(`SELECT name, applied_at AS appliedAt, ${digest} FROM ${migrationTable}`)
    .all([]) as ReadonlyArray<AppliedMigration>
}

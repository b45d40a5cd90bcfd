import type { MigrationStatus } from "@kiln/core/ports"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

type Applied = MigrationStatus["applied"]

/** Its own name: an embedder's tables, and their migrations, may stand in the same file. */
export const migrationTable = "kiln_migrations"

/** What was noted as applied, by whichever version. None where nothing ever was. */
export const appliedMigrations = (connection: SqliteDatabase): Applied => {
  const table = connection
    .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?")
    .get([migrationTable])
  if (table === undefined) return []
  return connection.prepare(`SELECT name, applied_at AS appliedAt FROM ${migrationTable}`).all([]) as Applied
}

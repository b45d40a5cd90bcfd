import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { Migration, MigrationStatus } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { migrations as bundled } from "./migrations/index.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** Has a name that no program's own migrations use, since the file may be shared. */
const migrationTable = "kiln_migrations"

/** Creates the table of applied migrations if it is missing. */
export const createMigrationTable = `CREATE TABLE IF NOT EXISTS ${migrationTable} (name TEXT NOT NULL PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`

/**
 * Brings the schema up to date. All pending migrations are applied in one transaction that holds the write lock from its
 * beginning: if several processes start at once, one migrates and the others find it done, and a killed process leaves nothing
 * half done. (Kysely's migrator has neither the lock nor the transaction on SQLite.) Unknown migrations belong to a newer
 * version, and this version may still run beside it.
 */
export const migrate = (
  database: Database,
  migrations: ReadonlyArray<Migration> = bundled,
): Effect.Effect<void, StoreUnavailable> =>
  Effect.gen(function* () {
    const { connection } = database
    const pending = () => migrationStatus(connection, migrations).pending
    // Check without the lock first: a start with nothing to migrate must not wait for a writer.
    if ((yield* database.read("migrate", pending)).length === 0) return
    yield* database.write("migrate", ({ now }) => {
      connection.exec(createMigrationTable)
      const record = connection.prepare(`INSERT INTO ${migrationTable} (name, applied_at) VALUES (?, ?)`)
      for (const migration of pending()) {
        connection.exec(migration.sql)
        record.run([migration.name, now])
      }
    })
  })

/** Reads which migrations were applied, by any version, and which are pending. Changes nothing. */
export const migrationStatus = (
  connection: SqliteDatabase,
  migrations: ReadonlyArray<Migration> = bundled,
): MigrationStatus => {
  const rows = appliedMigrations(connection)
  const byName = new Map(rows.map((row) => [row.name, row]))
  const known = new Set(migrations.map(({ name }) => name))
  return {
    applied: migrations.flatMap(({ name }) => byName.get(name) ?? []),
    pending: migrations.filter(({ name }) => !byName.has(name)),
    unknown: rows.map(({ name }) => name).filter((name) => !known.has(name)),
  }
}

const appliedMigrations = (connection: SqliteDatabase): MigrationStatus["applied"] => {
  const table = connection
    .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?")
    .get([migrationTable])
  if (table === undefined) return []
  return connection
    .prepare(`SELECT name, applied_at AS appliedAt FROM ${migrationTable}`)
    .all([]) as MigrationStatus["applied"]
}

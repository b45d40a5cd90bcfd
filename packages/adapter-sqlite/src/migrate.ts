import type { SqliteDatabase } from "./SqliteDatabase.ts"
import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { Migration, MigrationStatus } from "@kiln/core/ports"
import { appliedMigrations, migrationTable } from "./appliedMigrations.ts"
import type { Database } from "./Database.ts"
import { migrations as bundled } from "./migrations/index.ts"

/** Makes the table of what was applied, where it is missing. */
export const createMigrationTable = `CREATE TABLE IF NOT EXISTS ${migrationTable} (name TEXT NOT NULL PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`

/**
 * Brings the schema up to date. All that is missing is applied in one transaction that holds the
 * write lock from its beginning: of several processes that start at once one does it and the others
 * find it done, and whoever is killed half way leaves nothing behind. (Kysely's migrator has neither
 * the lock nor the transaction on SQLite.) Migrations this version does not know are a newer
 * version's, beside which it may still run.
 */
export const migrate = (
  database: Database,
  migrations: ReadonlyArray<Migration> = bundled,
): Effect.Effect<void, StoreUnavailable> =>
  Effect.gen(function* () {
    const { connection } = database
    const missing = () => migrationStatus(connection, migrations).pending
    // A look first: a start must not wait for a writer when there is nothing to do.
    if ((yield* database.read("migrate", missing)).length === 0) return
    yield* database.write("migrate", ({ now }) => {
      connection.exec(createMigrationTable)
      const note = connection.prepare(`INSERT INTO ${migrationTable} (name, applied_at) VALUES (?, ?)`)
      for (const migration of missing()) {
        connection.exec(migration.sql)
        note.run([migration.name, now])
      }
    })
  })

/** Reads how far the schema is and what is still to be applied. Changes nothing. */
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

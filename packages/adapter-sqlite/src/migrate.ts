import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import { SchemaMismatch, StoreUnavailable } from "@kiln/core/domain"
import { type AppliedMigration, compareMigrations, type Migration, type MigrationStatus } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { migrations as bundled } from "./migrations/index.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** Has a name that no program's own migrations use, since the file may be shared. */
const migrationTable = "kiln_migrations"

/** Creates the table of applied migrations if it is missing, as the first version did. A migration adds the digests. */
export const createMigrationTable = `CREATE TABLE IF NOT EXISTS ${migrationTable} (name TEXT NOT NULL PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`

const digestOf = ({ sql }: Migration): string => createHash("sha256").update(sql).digest("hex")

/**
 * Brings the schema up to date. All pending migrations are applied in one transaction that holds the write lock from its
 * beginning: if several processes start at once, one migrates and the others find it done, and a killed process leaves nothing
 * half done. (Kysely's migrator has neither the lock nor the transaction on SQLite.) Unknown migrations belong to a newer
 * version, and this version may still run beside it. Fails with `SchemaMismatch` as the cause, and changes nothing, if a
 * migration was applied with another text.
 */
export const migrate = (
  database: Database,
  migrations: ReadonlyArray<Migration> = bundled,
): Effect.Effect<void, StoreUnavailable> =>
  Effect.gen(function* () {
    const { connection } = database
    const compare = () => compareMigrations(appliedMigrations(connection), migrations, digestOf)
    // Check without the lock first: a start with nothing to migrate must not wait for a writer.
    const { changed, pending, withoutDigest } = yield* database.read("migrate", compare)
    if (changed.length > 0) return yield* mismatch(changed)
    if (pending.length + withoutDigest.length === 0) return
    const found = yield* database.write("migrate", ({ now }) => {
      connection.exec(createMigrationTable)
      const record = connection.prepare(`INSERT INTO ${migrationTable} (name, applied_at) VALUES (?, ?)`)
      const before = compare()
      if (before.changed.length > 0) return before.changed
      for (const migration of before.pending) {
        connection.exec(migration.sql)
        record.run([migration.name, now])
      }
      recordDigests(connection, migrations)
      return []
    })
    if (found.length > 0) return yield* mismatch(found)
  })

const mismatch = (changed: ReadonlyArray<string>) =>
  Effect.fail(new StoreUnavailable({ operation: "migrate", cause: new SchemaMismatch({ changed }) }))

/** Keeps the digests of applied migrations that have none. Does nothing before the migration that adds the column. */
const recordDigests = (connection: SqliteDatabase, migrations: ReadonlyArray<Migration>): void => {
  if (!hasDigests(connection)) return
  const record = connection.prepare(`UPDATE ${migrationTable} SET digest = ? WHERE name = ? AND digest IS NULL`)
  for (const migration of migrations) record.run([digestOf(migration), migration.name])
}

/** Reads which migrations were applied, by any version, and which are pending. Changes nothing. */
export const migrationStatus = (
  connection: SqliteDatabase,
  migrations: ReadonlyArray<Migration> = bundled,
): MigrationStatus => {
  const { withoutDigest, ...status } = compareMigrations(appliedMigrations(connection), migrations, digestOf)
  return status
}

const hasDigests = (connection: SqliteDatabase): boolean =>
  connection.prepare("SELECT 1 FROM pragma_table_info(?) WHERE name = 'digest'").get([migrationTable]) !== undefined

const appliedMigrations = (connection: SqliteDatabase): ReadonlyArray<AppliedMigration> => {
  const table = connection
    .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?")
    .get([migrationTable])
  if (table === undefined) return []
  const digest = hasDigests(connection) ? "digest" : "NULL AS digest"
  return connection
    .prepare(`SELECT name, applied_at AS appliedAt, ${digest} FROM ${migrationTable}`)
    .all([]) as ReadonlyArray<AppliedMigration>
}

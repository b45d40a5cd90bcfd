import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { Migration, MigrationStatus } from "@kiln/core/ports"
import { acceptMigrations, compareMigrations, type FoundMigrations, isOtherText, statusOf } from "@kiln/sql-store"
import type { Database } from "../Database.ts"
import { schemaDrift } from "../inspect/schemaDrift.ts"
import { appliedMigrations, createMigrationTable, recordDigests, recordMigration, digestOf } from "./migrationTable.ts"
import { migrations as bundled } from "./index.ts"
import type { SqliteDatabase } from "../SqliteDatabase.ts"

const find = (connection: SqliteDatabase, migrations: ReadonlyArray<Migration>): FoundMigrations => {
  const compared = compareMigrations(appliedMigrations(connection), migrations, digestOf)
  if (compared.withoutDigest.length === 0) return { ...compared, differences: [] }
  const differences = schemaDrift({ connection }, migrations, compared).filter(isOtherText)
  if (differences.length === 0) return { ...compared, differences }
  return { ...compared, changed: [...compared.changed, ...compared.withoutDigest.map(({ name }) => name)], differences }
}

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
    // Check without the lock first: a start with nothing to migrate must not wait for a writer.
    const { pending, withoutDigest } = yield* acceptMigrations(
      database.read("migrate", () => find(connection, migrations)),
    )
    if (pending.length + withoutDigest.length === 0) return
    yield* acceptMigrations(
      database.write("migrate", ({ now }) => {
        const found = find(connection, migrations)
        if (found.changed.length > 0) return found
        connection.exec(createMigrationTable)
        const record = connection.prepare(recordMigration)
        for (const migration of found.pending) {
          connection.exec(migration.sql)
          record.run([migration.name, now])
        }
        recordDigests(connection, migrations)
        return found
      }),
    )
  })

/** Reads which migrations were applied, by any version, and which are pending. Changes nothing. */
export const migrationStatus = (
  connection: SqliteDatabase,
  migrations: ReadonlyArray<Migration> = bundled,
): MigrationStatus => statusOf(find(connection, migrations))

import { Effect } from "effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { Database } from "./Database.ts"
import { migrations as bundled } from "./migrations/index.ts"
import type { Migration } from "./migrations/Migration.ts"

/** Its own name: an embedder's tables, and their migrations, may stand in the same file. */
const table = "kiln_migrations"

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
    // A look first: a start must not wait for a writer when there is nothing to do.
    if ((yield* database.read("migrate", () => missing(database, migrations))).length === 0) return
    yield* database.write("migrate", ({ now }) => {
      const { connection } = database
      connection.exec(
        `CREATE TABLE IF NOT EXISTS ${table} (name TEXT NOT NULL PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`,
      )
      const note = connection.prepare(`INSERT INTO ${table} (name, applied_at) VALUES (?, ?)`)
      for (const migration of missing(database, migrations)) {
        connection.exec(migration.sql)
        note.run([migration.name, now])
      }
    })
  })

const missing = ({ connection }: Database, migrations: ReadonlyArray<Migration>): ReadonlyArray<Migration> => {
  const exists =
    connection.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get([table]) !== undefined
  const rows = exists
    ? (connection.prepare(`SELECT name FROM ${table}`).all([]) as ReadonlyArray<{ readonly name: string }>)
    : []
  const applied = new Set(rows.map((row) => row.name))
  return migrations.filter((migration) => !applied.has(migration.name))
}

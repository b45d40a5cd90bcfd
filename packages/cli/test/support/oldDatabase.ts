import { DatabaseSync } from "node:sqlite"
import { Effect } from "effect"
import { sqliteMigrations } from "@kiln/adapter-sqlite"

/** A database as the first version made it: brought up to date, but its tables are called `jobs`, not `kiln_jobs`. */
export const makeOldDatabase = async (path: string): Promise<void> => {
  const { pending } = await Effect.runPromise(sqliteMigrations.status({ path }))
  using database = new DatabaseSync(path)
  database.exec(`PRAGMA journal_mode = WAL;
    CREATE TABLE kiln_migrations (name TEXT NOT NULL PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`)
  const note = database.prepare("INSERT INTO kiln_migrations (name, applied_at) VALUES (?, 1)")
  for (const { name, sql } of pending) {
    database.exec(sql.replaceAll("kiln_", ""))
    note.run(name)
  }
}

import { createHash } from "node:crypto"
import type { Migration } from "@kiln/core/ports"
import type { AppliedMigration } from "@kiln/sql-store"
import type { Session } from "../connection/Session.ts"

/** Creates the table of applied migrations, as the first version did. A migration adds the digests. */
export const createMigrationTable = `CREATE TABLE IF NOT EXISTS "kiln".migrations (name text PRIMARY KEY, applied_at bigint NOT NULL)`

export const recordMigration = `INSERT INTO "kiln".migrations (name, applied_at) VALUES ($1, "kiln".store_time())`

export const digestOf = ({ sql }: Migration): string => createHash("sha256").update(sql).digest("hex")

/** `digests`: whether the table has a column for them. */
interface MigrationTable {
  readonly digests: boolean
}

const findTable = async (session: Session, schema: string): Promise<MigrationTable | undefined> => {
  const [table] = await session.execute<MigrationTable>(
    `SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'digest' AND NOT attisdropped) AS digests
     FROM pg_class WHERE oid = to_regclass($1)`,
    [`"${schema}".migrations`],
  )
  return table
}

/** Reads the migrations that any version has applied. */
export const appliedMigrations = async (session: Session, schema: string): Promise<ReadonlyArray<AppliedMigration>> => {
  const table = await findTable(session, schema)
  if (table === undefined) return []
  return session.execute<AppliedMigration>(
    `SELECT name, applied_at AS "appliedAt", ${table.digests ? "digest" : "NULL AS digest"}
     FROM "kiln".migrations ORDER BY applied_at, name`,
  )
}

/** Keeps the digests of applied migrations that have none. Does nothing before the migration that adds the column. */
export const recordDigests = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration>,
): Promise<void> => {
  if ((await findTable(session, schema))?.digests !== true) return
  for (const migration of migrations)
    await session.execute(`UPDATE "kiln".migrations SET digest = $1 WHERE name = $2 AND digest IS NULL`, [
      digestOf(migration),
      migration.name,
    ])
}

import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import { SchemaMismatch, StoreUnavailable } from "@kiln/core/domain"
import {
  type AppliedMigration,
  type ComparedMigrations,
  compareMigrations,
  type Migration,
  type MigrationStatus,
} from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { migrations as bundled } from "./migrations/index.ts"
import type { Session } from "./Session.ts"

/** Creates the table of applied migrations, as the first version did. A migration adds the digests. */
export const createMigrationTable = `CREATE TABLE IF NOT EXISTS "kiln".migrations (name text PRIMARY KEY, applied_at bigint NOT NULL)`

const digestOf = ({ sql }: Migration): string => createHash("sha256").update(sql).digest("hex")

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

const compare = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration>,
): Promise<ComparedMigrations> => {
  const table = await findTable(session, schema)
  if (table === undefined) return compareMigrations([], migrations, digestOf)
  const rows = await session.execute<AppliedMigration>(
    `SELECT name, applied_at AS "appliedAt", ${table.digests ? "digest" : "NULL AS digest"}
     FROM "kiln".migrations ORDER BY applied_at, name`,
  )
  return compareMigrations(rows, migrations, digestOf)
}

/** Returns which migrations are applied and pending. Changes nothing. Without a schema, all are pending. */
export const migrationStatus = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration> = bundled,
): Promise<MigrationStatus> => {
  const { withoutDigest, ...status } = await compare(session, schema, migrations)
  return status
}

/** Keeps the digests of applied migrations that have none. Does nothing before the migration that adds the column. */
const recordDigests = async (session: Session, schema: string, migrations: ReadonlyArray<Migration>): Promise<void> => {
  if ((await findTable(session, schema))?.digests !== true) return
  for (const migration of migrations)
    await session.execute(`UPDATE "kiln".migrations SET digest = $1 WHERE name = $2 AND digest IS NULL`, [
      digestOf(migration),
      migration.name,
    ])
}

const mismatch = (changed: ReadonlyArray<string>) =>
  Effect.fail(new StoreUnavailable({ operation: "migrate", cause: new SchemaMismatch({ changed }) }))

/** The outcome of applying migrations. */
interface Outcome {
  readonly applied: ReadonlyArray<string>
  /** If any, nothing was applied. */
  readonly changed: ReadonlyArray<string>
}

/**
 * Applies pending migrations and returns their names. They run in one transaction under a database-wide lock: if several
 * processes start at once, one applies them, and a killed process leaves nothing behind. Unknown migrations belong to a newer
 * version, beside which this one can run. Fails with `SchemaMismatch` as the cause, and changes nothing, if a migration was
 * applied with another text.
 */
export const applyMigrations = (
  database: Database,
  schema: string,
  migrations: ReadonlyArray<Migration> = bundled,
): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
  Effect.gen(function* () {
    const { applied, changed } = yield* database.bare("migrate", async (session): Promise<Outcome> => {
      await session.execute(`SELECT pg_advisory_xact_lock(hashtextextended('kiln migrations', 0))`)
      // A migration may take longer than any other statement.
      await session.execute("SET LOCAL statement_timeout = 0")
      const before = await compare(session, schema, migrations)
      if (before.changed.length > 0) return { applied: [], changed: before.changed }
      const [found] = await session.execute<{ there: boolean }>("SELECT to_regnamespace($1) IS NOT NULL AS there", [
        schema,
      ])
      // A role that may not create schemas may still own this one.
      if (found?.there !== true) await session.execute(`CREATE SCHEMA "${schema}"`)
      await session.execute(createMigrationTable)
      for (const { name, sql } of before.pending) {
        await session.execute(sql)
        await session.execute(`INSERT INTO "kiln".migrations (name, applied_at) VALUES ($1, "kiln".store_time())`, [
          name,
        ])
      }
      await recordDigests(session, schema, migrations)
      return { applied: before.pending.map(({ name }) => name), changed: [] }
    })
    return changed.length > 0 ? yield* mismatch(changed) : applied
  })

/**
 * Ensures that the schema is up to date. If nothing is pending, nothing is written, so a role without the privilege to change
 * schemas can run the service.
 */
export const migrate = (
  database: Database,
  schema: string,
  apply: boolean,
  migrations: ReadonlyArray<Migration> = bundled,
): Effect.Effect<void, StoreUnavailable> =>
  Effect.gen(function* () {
    const { changed, pending } = yield* database.read("migrate", (session) =>
      migrationStatus(session, schema, migrations),
    )
    if (changed.length > 0) return yield* mismatch(changed)
    if (pending.length === 0) return
    if (apply) return void (yield* applyMigrations(database, schema, migrations))
    const names = pending.map(({ name }) => name).join(", ")
    return yield* Effect.fail(
      new StoreUnavailable({
        operation: "migrate",
        cause: new Error(`the schema ${schema} is not up to date; pending migrations: ${names}`),
      }),
    )
  })

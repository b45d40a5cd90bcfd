import * as Effect from "effect/Effect"
import { StoreUnavailable } from "@kiln/core/domain"
import type { Migration, MigrationStatus } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { migrations as bundled } from "./migrations/0001Initial.ts"
import type { Session } from "./Session.ts"

/** Returns which migrations are applied and pending. Changes nothing. Without a schema, all are pending. */
export const migrationStatus = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration> = bundled,
): Promise<MigrationStatus> => {
  const [found] = await session.execute<{ there: boolean }>("SELECT to_regclass($1) IS NOT NULL AS there", [
    `"${schema}".migrations`,
  ])
  const applied =
    found?.there === true
      ? await session.execute<{ name: string; appliedAt: number }>(
          `SELECT name, applied_at AS "appliedAt" FROM "kiln".migrations ORDER BY applied_at, name`,
        )
      : []
  const names = new Set(applied.map(({ name }) => name))
  const known = new Set(migrations.map(({ name }) => name))
  return {
    applied: migrations.flatMap(({ name }) => applied.find((row) => row.name === name) ?? []),
    pending: migrations.filter(({ name }) => !names.has(name)),
    unknown: applied.flatMap(({ name }) => (known.has(name) ? [] : [name])),
  }
}

/**
 * Applies pending migrations and returns their names. They run in one transaction under a database-wide lock: if several
 * processes start at once, one applies them, and a killed process leaves nothing behind. Unknown migrations belong to a newer
 * version, beside which this one can run.
 */
export const applyMigrations = (
  database: Database,
  schema: string,
  migrations: ReadonlyArray<Migration> = bundled,
): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
  database.bare("migrate", async (session) => {
    await session.execute(`SELECT pg_advisory_xact_lock(hashtextextended('kiln migrations', 0))`)
    // A migration may take longer than any other statement.
    await session.execute("SET LOCAL statement_timeout = 0")
    const [found] = await session.execute<{ there: boolean }>("SELECT to_regnamespace($1) IS NOT NULL AS there", [
      schema,
    ])
    // A role that may not create schemas may still own this one.
    if (found?.there !== true) await session.execute(`CREATE SCHEMA "${schema}"`)
    await session.execute(
      `CREATE TABLE IF NOT EXISTS "kiln".migrations (name text PRIMARY KEY, applied_at bigint NOT NULL)`,
    )
    const { pending } = await migrationStatus(session, schema, migrations)
    for (const { name, sql } of pending) {
      await session.execute(sql)
      await session.execute(`INSERT INTO "kiln".migrations (name, applied_at) VALUES ($1, "kiln".store_time())`, [name])
    }
    return pending.map(({ name }) => name)
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
    const { pending } = yield* database.read("migrate", (session) => migrationStatus(session, schema, migrations))
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

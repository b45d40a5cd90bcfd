import { isDeepStrictEqual } from "node:util"
import * as Effect from "effect/Effect"
import { StoreUnavailable } from "@kiln/core/domain"
import type { Migration, MigrationStatus, SchemaDrift } from "@kiln/core/ports"
import {
  type ComparedMigrations,
  acceptMigrations,
  compareMigrations,
  type FoundMigrations,
  isOtherText,
  statusOf,
} from "@kiln/sql-store"
import type { Database } from "../connection/Database.ts"
import { appliedMigrations, createMigrationTable, recordDigests, recordMigration, digestOf } from "./migrationTable.ts"
import { migrations as bundled } from "./index.ts"
import { sqlState } from "../connection/postgresErrors.ts"
import { inSavepoint, schemaDrift } from "../inspect/schemaDrift.ts"
import type { Session } from "../connection/Session.ts"

type Table = { readonly name: string }

/** The tables of a schema, as SQL names them. */
const tablesOf = (session: Session, schema: string): Promise<ReadonlyArray<Table>> =>
  session.execute<Table>(
    "SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'",
    [`"${schema}"`],
  )

/**
 * Gives the roles that may use the uploads the same rights on tables that a migration has added. Processes that run with such a role
 * need them from the commit on: triggers write to these tables, also for processes of the previous version.
 */
const shareRights = async (session: Session, schema: string, before: ReadonlyArray<Table>): Promise<void> => {
  const known = new Set(before.map(({ name }) => name))
  const added = (await tablesOf(session, schema)).filter(({ name }) => !known.has(name))
  const rights = await session.execute<{ role: string; rights: string }>(
    `SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, string_agg(privilege_type, ', ') AS rights
     FROM pg_class, aclexplode(relacl) WHERE pg_class.oid = to_regclass($1) AND grantee <> relowner GROUP BY grantee`,
    [`"${schema}".uploads`],
  )
  for (const { name } of added)
    for (const { rights: all, role } of rights) await session.execute(`GRANT ${all} ON ${name} TO ${role}`)
}

const compare = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration>,
): Promise<ComparedMigrations> => compareMigrations(await appliedMigrations(session, schema), migrations, digestOf)

const functionText =
  /CREATE (?:OR REPLACE )?FUNCTION "kiln"\.(\w+)\((?:(?!\bAS\s+[$'])[\s\S])*AS\s+(?:\$\$[\s\S]*?\$\$|'[^']*');/g

const functionPrefix = "function "

/**
 * Returns the names of the functions by which a schema differs, if it differs by the text of functions alone; otherwise none. The
 * tables then hold the same as those of this version, so its functions can replace the others.
 */
const changedFunctions = (differences: ReadonlyArray<SchemaDrift>): ReadonlyArray<string> =>
  differences.every(({ object, problem }) => problem === "changed" && object.startsWith(functionPrefix))
    ? differences.map(({ object }) => object.slice(functionPrefix.length))
    : []

/** Gives functions the text that migrations define, also if they have other parameters now. */
const replaceFunctions = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration>,
  names: ReadonlyArray<string>,
): Promise<void> => {
  const texts = new Map(
    migrations.flatMap(({ sql }) => [...sql.matchAll(functionText)].map(([text, name]) => [name, text] as const)),
  )
  // Nothing depends on a function, except a trigger on its function.
  const others = await session.execute<{ signature: string }>(
    `SELECT oid::regprocedure::text AS signature FROM pg_proc
     WHERE pronamespace = to_regnamespace($1) AND proname = ANY ($2) AND prorettype <> 'trigger'::regtype`,
    [schema, names],
  )
  for (const { signature } of others) await session.execute(`DROP FUNCTION ${signature}`)
  for (const name of names)
    await session.execute((texts.get(name) ?? "").replace(/^CREATE (OR REPLACE )?/, "CREATE OR REPLACE "))
}

interface Found extends FoundMigrations {
  /** Functions that have the text of an older version. Nothing else differs, so migrating replaces them. */
  readonly olderFunctions: ReadonlyArray<string>
}

const noDifferences = { differences: [], olderFunctions: [] }

const find = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration>,
  around?: typeof inSavepoint,
): Promise<Found> => {
  const compared = await compare(session, schema, migrations)
  const found = await withDifferences(session, schema, migrations, compared, around)
  // Another process may have migrated between two statements: then what was read of the schema is not of these migrations.
  if (found.differences.length === 0 || isDeepStrictEqual(await compare(session, schema, migrations), compared))
    return found
  return find(session, schema, migrations, around)
}

const withDifferences = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration>,
  compared: ComparedMigrations,
  around?: typeof inSavepoint,
): Promise<Found> => {
  const { applied, changed, unknown, withoutDigest } = compared
  if (withoutDigest.length === 0) return { ...compared, ...noDifferences }
  const known = ofNames(migrations, applied)
  const drift = await schemaDrift(session, schema, known, unknown.length > 0, around)
  const differences = drift.filter(isOtherText)
  if (differences.length === 0) return { ...compared, ...noDifferences }
  const olderFunctions = changedFunctions(differences)
  if (olderFunctions.length > 0) return { ...compared, differences, olderFunctions }
  return { ...compared, changed: [...changed, ...withoutDigest.map(({ name }) => name)], differences, olderFunctions }
}

const ofNames = (migrations: ReadonlyArray<Migration>, names: ReadonlyArray<{ readonly name: string }>) => {
  const wanted = new Set(names.map(({ name }) => name))
  return migrations.filter(({ name }) => wanted.has(name))
}

/** The role may not create temporary tables, or the server accepts no writes: a comparison is not possible. */
const cannotCompare = new Set(["42501", "25006"])

/** The same for a role that may only read: without the right to compare, migrations without digest count as unchanged. */
const findIfPossible = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration>,
): Promise<Found> => {
  try {
    return await find(session, schema, migrations)
  } catch (error) {
    if (!cannotCompare.has(sqlState(error) ?? "")) throw error
    return { ...(await compare(session, schema, migrations)), ...noDifferences }
  }
}

/** The same under the lock of migrations. Replaces functions of an older text. */
const findWithFunctions = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration>,
): Promise<Found> => {
  const before = await find(session, schema, migrations, inSavepoint)
  if (before.olderFunctions.length === 0) return before
  await session.execute("SAVEPOINT kiln_functions")
  await replaceFunctions(session, schema, ofNames(migrations, before.applied), before.olderFunctions)
  const after = await find(session, schema, migrations, inSavepoint)
  if (after.differences.length === 0) return after
  await session.execute("ROLLBACK TO SAVEPOINT kiln_functions")
  return { ...after, changed: after.withoutDigest.map(({ name }) => name) }
}

/** Returns which migrations are applied and pending. Changes nothing. Without a schema, all are pending. */
export const migrationStatus = async (
  session: Session,
  schema: string,
  migrations: ReadonlyArray<Migration> = bundled,
): Promise<MigrationStatus> => statusOf(await findIfPossible(session, schema, migrations))

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
): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> => {
  const apply = database.bare("migrate", async (session) => {
    await session.execute(`SELECT pg_advisory_xact_lock(hashtextextended('kiln migrations', 0))`)
    // A migration may take longer than any other statement.
    await session.execute("SET LOCAL statement_timeout = 0")
    const before = await findWithFunctions(session, schema, migrations)
    if (before.changed.length > 0) return before
    const [found] = await session.execute<{ there: boolean }>("SELECT to_regnamespace($1) IS NOT NULL AS there", [
      schema,
    ])
    // A role that may not create schemas may still own this one.
    if (found?.there !== true) await session.execute(`CREATE SCHEMA "${schema}"`)
    await session.execute(createMigrationTable)
    const tables = await tablesOf(session, schema)
    for (const { name, sql } of before.pending) {
      await session.execute(sql)
      await session.execute(recordMigration, [name])
    }
    await shareRights(session, schema, tables)
    await recordDigests(session, schema, migrations)
    return before
  })
  return Effect.map(acceptMigrations(apply), ({ pending }) => pending.map(({ name }) => name))
}

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
    const { pending, withoutDigest } = yield* acceptMigrations(
      database.read("migrate", (session) => findIfPossible(session, schema, migrations)),
    )
    if (apply && pending.length + withoutDigest.length > 0)
      return void (yield* applyMigrations(database, schema, migrations))
    if (pending.length === 0) return
    const names = pending.map(({ name }) => name).join(", ")
    return yield* Effect.fail(
      new StoreUnavailable({
        operation: "migrate",
        cause: new Error(`the schema ${schema} is not up to date; pending migrations: ${names}`),
      }),
    )
  })

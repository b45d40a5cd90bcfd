import type { Migration, SchemaDrift } from "@kiln/core/ports"
import { createMigrationTable } from "../migrations/migrationTable.ts"
import type { Session } from "../connection/Session.ts"
import { inSchema } from "../Statement.ts"

/** A part of a schema and its definition. */
export interface SchemaPart {
  /** Its type and name: `table jobs`, `column jobs.token`, `index queue_by_turn`, `trigger jobs_finish`, `function refuse`. */
  readonly object: string
  /** The table it belongs to; `null` for functions and domains. */
  readonly table: string | null
  readonly definition: string
}

/**
 * Leaves out storage settings, which operators tune; NOT NULL constraints, which newer servers list separately and columns show
 * anyway; indexes of constraints; and the parentheses of triggers, which a dump and its restoration arrange differently.
 */
const parts = `
SELECT 'table ' || relname AS object, relname AS table, '' AS definition
FROM pg_class WHERE relnamespace = $1 AND relkind IN ('r', 'p')
UNION ALL
SELECT 'column ' || relname || '.' || attname, relname,
  concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, pg_get_expr(adbin, adrelid),
    (SELECT collname FROM pg_collation WHERE pg_collation.oid = attcollation))
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = $1 AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT 'constraint ' || relname || '.' || conname, relname, pg_get_constraintdef(pg_constraint.oid) || convalidated
FROM pg_class JOIN pg_constraint ON conrelid = pg_class.oid
WHERE relnamespace = $1 AND contype NOT IN ('n', 't')
UNION ALL
SELECT 'index ' || named.relname, owner.relname, pg_get_indexdef(indexrelid) || indisvalid
FROM pg_index JOIN pg_class AS owner ON owner.oid = indrelid JOIN pg_class AS named ON named.oid = indexrelid
WHERE owner.relnamespace = $1 AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x'))
UNION ALL
SELECT 'trigger ' || tgname, relname, translate(pg_get_triggerdef(pg_trigger.oid), '()', '') || CASE tgenabled WHEN 'D' THEN ' DISABLED' ELSE '' END
FROM pg_class JOIN pg_trigger ON tgrelid = pg_class.oid
WHERE relnamespace = $1 AND NOT tgisinternal
UNION ALL
SELECT 'domain ' || typname, NULL, concat_ws(' ', format_type(typbasetype, typtypmod), typnotnull,
  (SELECT string_agg(pg_get_constraintdef(oid) || convalidated, ' ' ORDER BY conname) FROM pg_constraint WHERE contypid = pg_type.oid))
FROM pg_type WHERE typnamespace = $1 AND typtype = 'd'
UNION ALL
SELECT 'function ' || proname, NULL, pg_get_functiondef(oid)
FROM pg_proc WHERE pronamespace = $1 AND prokind = 'f'
ORDER BY 1
`

/** Matches a schema name that qualifies another name, but not a word in a comment. */
const qualifier = (names: ReadonlyArray<string>): RegExp =>
  new RegExp(`(?<![\\w"])(?:${names.map((name) => `"${name}"|${name}`).join("|")})\\.(?=[\\w"])`, "g")

type Queries = Pick<Session, "execute">

/** Reads a schema by its namespace's oid. `names`: validated schema names to remove from the definitions. */
const readSchema = async (
  session: Queries,
  namespace: number,
  names: ReadonlyArray<string>,
): Promise<ReadonlyMap<string, SchemaPart>> => {
  const rows = await session.execute<SchemaPart>(parts, [namespace])
  const named = qualifier(names)
  return new Map(rows.map((part) => [part.object, { ...part, definition: part.definition.replaceAll(named, "") }]))
}

/** The schema of temporary tables, in which every role may create tables: the comparison needs no other privilege. */
const scratch = "pg_temp"

interface Namespaces {
  readonly actual: number | null
  readonly fresh: number
  readonly freshName: string
}

/**
 * Statements around a comparison, which creates the expected schema and takes it back. Read-write also for a role whose transactions
 * are read-only by default: temporary tables are not kiln's.
 */
const inTransaction = { open: "BEGIN READ WRITE", close: "ROLLBACK" }
/** The same within a transaction. */
export const inSavepoint = {
  open: "SAVEPOINT kiln_comparison",
  close: "ROLLBACK TO SAVEPOINT kiln_comparison",
}

/**
 * Compares a schema with the result of its migrations in a temporary schema, in a transaction or to a savepoint that is rolled
 * back. Ignores tables that are not kiln's. `besides`: a newer version has added to the schema; then only missing parts and
 * changed columns are reported.
 */
export const schemaDrift = async (
  session: Queries,
  schema: string,
  migrations: ReadonlyArray<Migration>,
  besides: boolean,
  { close, open } = inTransaction,
): Promise<ReadonlyArray<SchemaDrift>> => {
  if (migrations.length === 0) return []
  await session.execute(open)
  try {
    // Makes the server qualify all names in definitions.
    await session.execute("SET LOCAL search_path = pg_catalog")
    for (const sql of [createMigrationTable, ...migrations.map((migration) => migration.sql)])
      await session.execute(inSchema(sql, scratch))
    const rows = await session.execute<Namespaces>(
      `SELECT (SELECT oid::int8 FROM pg_namespace WHERE nspname = $1) AS actual, pg_my_temp_schema()::int8 AS fresh,
         pg_my_temp_schema()::regnamespace::text AS "freshName"`,
      [schema],
    )
    const [{ actual, fresh, freshName } = { actual: null, fresh: 0, freshName: "" }] = rows
    const names = [schema, scratch, freshName]
    const expected = await readSchema(session, fresh, names)
    return compare(expected, await readSchema(session, actual ?? 0, names), besides)
  } finally {
    await session.execute(close)
  }
}

const compare = (
  expected: ReadonlyMap<string, SchemaPart>,
  actual: ReadonlyMap<string, SchemaPart>,
  besides: boolean,
): ReadonlyArray<SchemaDrift> => {
  const isGone = ({ table }: SchemaPart): boolean => table !== null && !actual.has(`table ${table}`)
  const compared = [...expected.values()].flatMap((part): ReadonlyArray<SchemaDrift> => {
    const { definition, object } = part
    const found = actual.get(object)
    // The parts of a missing table are missing with it.
    if (found === undefined)
      return isGone(part) && object !== `table ${part.table}` ? [] : [{ object, problem: "missing" }]
    const mayDiffer = besides && !object.startsWith("column ")
    return found.definition === definition || mayDiffer ? [] : [{ object, problem: "changed" }]
  })
  const extra = [...actual.values()].filter(
    ({ object, table }) => !besides && !expected.has(object) && table !== null && expected.has(`table ${table}`),
  )
  return [...compared, ...extra.map(({ object }): SchemaDrift => ({ object, problem: "extra" }))]
}

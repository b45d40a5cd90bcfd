import SqliteDatabase from "better-sqlite3"
import type { Migration, MigrationStatus, SchemaDrift } from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import { createMigrationTable } from "../migrations/migrationTable.ts"

interface SchemaRow {
  readonly type: "table" | "index" | "trigger" | "view"
  readonly name: string
  readonly tableName: string
  readonly sql: string
}

interface ColumnRow {
  readonly name: string
  /** Its other properties. */
  readonly rest: string
}

/** Omits the indexes that SQLite creates for constraints: they have no text and belong to their table's. */
const schemaOf = (connection: SqliteDatabase): ReadonlyMap<string, SchemaRow> => {
  const rows = connection
    .prepare(
      "SELECT type, name, tbl_name AS tableName, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )
    .all([]) as ReadonlyArray<SchemaRow>
  return new Map(rows.map((row) => [`${row.type} ${row.name}`, row]))
}

const columnsOf = (connection: SqliteDatabase, table: string): ReadonlyMap<string, string> => {
  const rows = connection
    .prepare(
      `SELECT name, json_array(type, "notnull", dflt_value, pk, hidden) AS rest FROM pragma_table_xinfo(?) ORDER BY cid`,
    )
    .all([table]) as ReadonlyArray<ColumnRow>
  return new Map(rows.map(({ name, rest }) => [name, rest]))
}

/** Ignores layout, because tools that dump and load a database reformat its schema. */
const layout = (sql: string): string => sql.replaceAll(/\s+/g, " ").trim()

/** Creates a database in memory with the same migrations as the inspected one. */
const expectedSchema = (migrations: ReadonlyArray<Migration>): SqliteDatabase => {
  const connection = new SqliteDatabase(":memory:")
  connection.exec(createMigrationTable)
  for (const { sql } of migrations) connection.exec(sql)
  return connection
}

const columnDrift = (
  expected: ReadonlyMap<string, string>,
  actual: ReadonlyMap<string, string>,
  table: string,
  allowExtra: boolean,
): ReadonlyArray<SchemaDrift> => [
  ...[...expected].flatMap(([name, rest]): ReadonlyArray<SchemaDrift> => {
    const found = actual.get(name)
    if (found === rest) return []
    return [{ object: `column ${table}.${name}`, problem: found === undefined ? "missing" : "changed" }]
  }),
  ...[...actual.keys()]
    .filter((name) => !allowExtra && !expected.has(name))
    .map((name): SchemaDrift => ({ object: `column ${table}.${name}`, problem: "extra" })),
]

/**
 * Compares the schema with the one its applied migrations create in an empty database. Tables of an embedding program are ignored.
 * If a newer version has migrated the schema, additions are assumed to be its own, and only missing objects and changed columns are
 * reported.
 */
export const schemaDrift = (
  { connection }: Pick<Database, "connection">,
  migrations: ReadonlyArray<Migration>,
  { applied, unknown }: Pick<MigrationStatus, "applied" | "unknown">,
): ReadonlyArray<SchemaDrift> => {
  if (applied.length === 0) return []
  const done = new Set(applied.map(({ name }) => name))
  const fresh = expectedSchema(migrations.filter(({ name }) => done.has(name)))
  try {
    const allowExtra = unknown.length > 0
    const expected = schemaOf(fresh)
    const actual = schemaOf(connection)
    const compared = [...expected].flatMap(([object, { name, sql, type }]): ReadonlyArray<SchemaDrift> => {
      const found = actual.get(object)
      if (found === undefined) return [{ object, problem: "missing" }]
      if (layout(found.sql) === layout(sql)) return []
      const columns =
        type === "table" ? columnDrift(columnsOf(fresh, name), columnsOf(connection, name), name, allowExtra) : []
      // The difference is not in a column, for example in a constraint.
      return columns.length > 0 || allowExtra ? columns : [{ object, problem: "changed" }]
    })
    const extra = [...actual].filter(
      ([object, { tableName }]) => !allowExtra && !expected.has(object) && expected.has(`table ${tableName}`),
    )
    return [...compared, ...extra.map(([object]): SchemaDrift => ({ object, problem: "extra" }))]
  } finally {
    fresh.close()
  }
}

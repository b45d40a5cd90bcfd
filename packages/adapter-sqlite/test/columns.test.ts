import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Column } from "@kiln/sql-store"
import { columns, tablePrefix } from "../src/columns.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

/** The names that SQLite has for the types of columns. */
const types: Readonly<Record<Column<unknown>["type"], string>> = {
  integer: "INTEGER",
  real: "REAL",
  text: "TEXT",
  bytes: "BLOB",
  flag: "INTEGER",
}

interface ColumnRow {
  readonly name: string
  readonly type: string
  readonly notnull: 0 | 1
  readonly dflt_value: string | null
  readonly pk: number
}

it.effect("the declared columns are those of the migrated schema: names, types, nullability and defaults", () =>
  Effect.gen(function* () {
    const { connection } = yield* openDatabase({ path: yield* temporaryFile })
    const describe = (table: string) =>
      (connection.prepare(`PRAGMA table_info(${tablePrefix}${table})`).all([]) as ReadonlyArray<ColumnRow>).map(
        // The row id of a table is generated; every other primary key is written.
        ({ dflt_value, name, notnull, pk, type }) => {
          const rowId = type === "INTEGER" && pk === 1 && notnull === 0 && name !== "job_seq"
          const nullable = notnull === 0 && pk === 0
          return { name, type, nullable, optional: nullable || dflt_value !== null || rowId }
        },
      )
    for (const [table, declared] of Object.entries(columns))
      expect(Object.fromEntries(describe(table).map(({ name, ...rest }) => [name, rest])), table).toEqual(
        Object.fromEntries(
          Object.entries<Column<unknown>>(declared).map(([name, column]) => [
            name,
            { ...column, type: types[column.type] },
          ]),
        ),
      )
    const tables = connection
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
      .all([])
      .map((row) => (row as { readonly name: string }).name)
    expect(tables.toSorted()).toEqual(
      [...Object.keys(columns).map((table) => tablePrefix + table), "kiln_migrations"].toSorted(),
    )
  }),
)

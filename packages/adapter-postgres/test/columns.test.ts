import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { withClient } from "@kiln/postgres-lab"
import { columns } from "../src/columns.ts"
import { postgresMigrations } from "../src/index.ts"
import { emptyDatabase } from "./support/databases.ts"

/** The types that a column of the declaration may have on the server. */
const types: Readonly<Record<string, string>> = {
  bigint: "integer",
  integer: "integer",
  smallint: "integer",
  "double precision": "real",
  text: "text",
  xid8: "text",
  bytea: "bytes",
  boolean: "flag",
}

interface ColumnRow {
  readonly table: string
  readonly name: string
  readonly type: string
  readonly nullable: boolean
  readonly generated: boolean
}

const described = `
  SELECT table_name AS table, column_name AS name, data_type AS type, is_nullable = 'YES' AS nullable,
    column_default IS NOT NULL OR is_identity = 'YES' AS generated
  FROM information_schema.columns WHERE table_schema = 'kiln' AND table_name NOT IN ('caller_marks', 'migrations')
  ORDER BY table_name, ordinal_position`

it.live("the declared columns are those of the migrated schema: names, types, nullability and defaults", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* postgresMigrations.apply({ url })
    const { rows } = yield* Effect.promise(() => withClient(url, (client) => client.query<ColumnRow>(described)))
    const schema = Map.groupBy(rows, ({ table }) => table)
    expect([...schema.keys()].toSorted()).toEqual(Object.keys(columns).toSorted())
    for (const [table, declared] of Object.entries(columns)) {
      const found = (schema.get(table) ?? []).map(({ generated, name, nullable, type }) => [
        name,
        { type: types[type], nullable, optional: nullable || generated },
      ])
      expect.soft(Object.fromEntries(found), table).toEqual(declared)
    }
  }),
)

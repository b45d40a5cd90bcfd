import type { ClientBase } from "pg"
import type { Migration } from "@kiln/core/ports"
import { inSchema } from "../Statement.ts"
import type { SchemaDrift } from "@kiln/core/ports"
import { readSchema, type SchemaPart } from "./readSchema.ts"

/** The schema of temporary tables, which every user may fill who may connect: the comparison needs no other right. */
const scratch = "pg_temp"

interface Namespaces {
  readonly actual: number | null
  readonly fresh: number
  readonly freshName: string
}

/**
 * Compares a schema with what its own migrations make of an empty one: in a temporary schema, by a transaction that is
 * rolled back. Tables that are not kiln's are not looked at. `besides`: a newer version has added to the schema; then only
 * what is missing, or a column that changed, is reported.
 */
export const schemaDrift = async (
  client: Pick<ClientBase, "query">,
  schema: string,
  migrations: ReadonlyArray<Migration>,
  besides: boolean,
): Promise<ReadonlyArray<SchemaDrift>> => {
  if (migrations.length === 0) return []
  await client.query("BEGIN")
  try {
    // Whatever the user's search path is, names are written in full.
    await client.query("SET LOCAL search_path = pg_catalog")
    for (const { sql } of migrations) await client.query(inSchema(sql, scratch))
    const { rows } = await client.query<Namespaces>(
      `SELECT (SELECT oid::int8 FROM pg_namespace WHERE nspname = $1) AS actual, pg_my_temp_schema()::int8 AS fresh,
         pg_my_temp_schema()::regnamespace::text AS "freshName"`,
      [schema],
    )
    const [{ actual, fresh, freshName } = { actual: null, fresh: 0, freshName: "" }] = rows
    const names = [schema, scratch, freshName]
    const expected = await readSchema(client, fresh, names)
    return compare(expected, await readSchema(client, actual ?? 0, names), besides)
  } finally {
    await client.query("ROLLBACK")
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
    // What was in a table went with it.
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

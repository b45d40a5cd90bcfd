import { sql } from "kysely"
import { batchStatement, query } from "../Statement.ts"

interface Setting {
  readonly name: string
  readonly value: string
}

/**
 * Settings that the statements here rely on, for their plans and for the meaning of parameters and results. The caller's
 * settings are restored afterwards.
 */
export const ourSettings: ReadonlyArray<Setting> = [
  ...["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_material"].map((name) => ({
    name,
    value: "off",
  })),
  // Without it, a NULL in an array is read as a word.
  { name: "array_nulls", value: "on" },
  { name: "bytea_output", value: "hex" },
  { name: "extra_float_digits", value: "1" },
  // Tells `add_callers_jobs` that there is a savepoint.
  { name: "kiln.creating", value: "on" },
]

/** Changes settings until the transaction ends or is rolled back to an earlier savepoint. Returns the previous values. */
export const changeSettings = batchStatement<Setting, {}, Setting>({ name: "text", value: "text" }, (item) =>
  query
    .selectFrom(item)
    .select([
      "item.name",
      sql<string>`coalesce(current_setting(item.name, true), '')`.as("value"),
      sql<string>`set_config(item.name, item.value, true)`.as("changed"),
    ]),
)

import { sql } from "kysely"
import { batchStatement, query, text } from "../Statement.ts"

interface Setting {
  readonly name: string
  readonly value: string
}

/**
 * Settings that the statements here rely on, for their plans and for the meaning of parameters and results. The caller's
 * settings are restored afterwards.
 */
export const ourSettings: ReadonlyArray<Setting> = [
  // Without it, a NULL in an array is read as a word.
  { name: "array_nulls", value: "on" },
  { name: "bytea_output", value: "hex" },
  { name: "extra_float_digits", value: "1" },
  // Tells `add_callers_jobs` that there is a savepoint.
  { name: "kiln.creating", value: "on" },
]

/** Changes settings until the transaction ends or is rolled back to an earlier savepoint. Returns the previous values. */
export const changeSettings = batchStatement({ name: text(), value: text() }, (item) =>
  query
    .selectFrom(item)
    .select([
      "item.name",
      sql<string>`coalesce(current_setting(item.name, true), '')`.as("value"),
      sql<string>`set_config(item.name, item.value, true)`.as("changed"),
    ]),
)

/** Client encodings in which texts reach the server as they are. */
const encodings = ["UTF8", "SQL_ASCII"]
/** Roles of replication in which triggers run. */
const roles = ["origin", "local"]

const isOneOf = (name: string, values: ReadonlyArray<string>): string =>
  `current_setting('${name}') IN (${values.map((value) => `'${value}'`).join(", ")})`

/** Whether jobs can be added in a session: see `sessionProblem`. */
export const usableSession = `${isOneOf("client_encoding", encodings)} AND ${isOneOf("session_replication_role", roles)}`

/** Settings of a session that only its owner can change. */
export interface SessionSettings {
  readonly encoding: string
  readonly role: string
}

/** Returns why no jobs can be added in a session; `undefined` if they can. */
export const sessionProblem = ({ encoding, role }: SessionSettings): string | undefined => {
  if (!encodings.includes(encoding))
    return `the connection has client_encoding ${encoding}, which would change the texts of jobs: set it to UTF8`
  if (!roles.includes(role))
    return `the connection has session_replication_role ${role}, which turns off the triggers of kiln's tables: set it to origin`
  return undefined
}

import { callbackify } from "node:util"
import type pg from "pg"
import { sql } from "kysely"
import { batchStatement, query, text } from "../Statement.ts"

/** The search path that each session is opened with. No other program has a reason for this one. */
export const sessionPath = "pg_catalog"

/** A new connection leads to another database than the earlier ones, for example because databases were renamed. */
export class OtherDatabase extends Error {
  override readonly name = "OtherDatabase"
}

/** A pooler accepts the settings of connections and does not pass them on. Statements would run under unknown settings. */
export class SettingsIgnored extends Error {
  override readonly name = "SettingsIgnored"
}

/** A connection of the embedding program has settings that no statement can change. */
export class UnusableSession extends Error {
  override readonly name = "UnusableSession"
}

interface Row extends SessionSettings {
  readonly database: string
  readonly path: string
  readonly tellsSystem: boolean
}

/** Runs a statement and returns its rows. */
type Ask = (text: string) => Promise<ReadonlyArray<unknown>>

/** Checks a session. Throws if statements must not run in it. */
export type SessionCheck = (ask: Ask) => Promise<void>

/** The number of the database, and the identity of its server where the server tells it. */
const identify = async (ask: Ask, isOwn: boolean): Promise<string> => {
  const [row] = (await ask(
    `SELECT oid::text AS database, current_setting('search_path') AS path,
       has_function_privilege('pg_catalog.pg_control_system()', 'execute') AS "tellsSystem",
       current_setting('client_encoding') AS encoding, current_setting('session_replication_role') AS role
     FROM pg_catalog.pg_database WHERE datname = current_database()`,
  )) as ReadonlyArray<Row>
  if (row === undefined) return "unknown"
  if (isOwn && row.path !== sessionPath)
    throw new SettingsIgnored(
      `a pooler in front of the server ignores the session settings of connections; set pooler: "transaction"`,
    )
  const problem = isOwn ? undefined : sessionProblem(row)
  if (problem !== undefined) throw new UnusableSession(problem)
  if (!row.tellsSystem) return row.database
  const [told] = (await ask(
    "SELECT system_identifier::text AS system FROM pg_catalog.pg_control_system()",
  )) as ReadonlyArray<{ readonly system: string }>
  return `${row.database} of ${told?.system}`
}

/**
 * Returns the check of new connections of one process: all must lead to the database of the first. If an operator renames databases
 * and a restored one replaces this one, a running process must not continue in it, because it would run its jobs again. Sessions that kiln opens
 * itself must have its search path; those of the embedding program, an encoding and a role in which jobs can be written.
 */
export const makeSameDatabase = (isOwn: boolean): SessionCheck => {
  let first: string | undefined
  return async (ask) => {
    const found = await identify(ask, isOwn)
    first ??= found
    if (found !== first)
      throw new OtherDatabase(
        `another database answers at this address (number ${found} instead of ${first}): it was replaced, perhaps by a copy; restart this process to use it`,
      )
  }
}

/** The check as the driver's pool takes it. */
export const verifierOf = (check: SessionCheck) =>
  callbackify(async (client: pg.ClientBase): Promise<void> =>
    check(async (statement) => (await client.query<object>(statement)).rows),
  )

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

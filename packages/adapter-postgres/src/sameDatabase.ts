import { callbackify } from "node:util"
import type pg from "pg"
import { sessionProblem, type SessionSettings } from "./callers/settings.ts"

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
    check(async (text) => (await client.query<object>(text)).rows),
  )

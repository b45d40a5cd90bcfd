import { callbackify } from "node:util"
import type pg from "pg"

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

interface Row {
  readonly database: string
  readonly path: string
  readonly tellsSystem: boolean
}

/** The number of the database, and the identity of its server where the server tells it. */
const identify = async (client: pg.ClientBase): Promise<string> => {
  const { rows } = await client.query<Row>(
    `SELECT oid::text AS database, current_setting('search_path') AS path, has_function_privilege('pg_catalog.pg_control_system()', 'execute') AS "tellsSystem"
     FROM pg_catalog.pg_database WHERE datname = current_database()`,
  )
  const [row] = rows
  if (row === undefined) return "unknown"
  if (row.path !== sessionPath)
    throw new SettingsIgnored(
      `a pooler in front of the server ignores the session settings of connections; set pooler: "transaction"`,
    )
  if (!row.tellsSystem) return row.database
  const told = await client.query<{ readonly system: string }>(
    "SELECT system_identifier::text AS system FROM pg_catalog.pg_control_system()",
  )
  return `${row.database} of ${told.rows[0]?.system}`
}

/**
 * Returns the check of new connections of one process: all must lead to the database of the first. If an operator renames databases
 * and a restored one replaces this one, a running process must not continue in it, because it would run its jobs again.
 */
export const makeSameDatabase = () => {
  let first: string | undefined
  return callbackify(async (client: pg.ClientBase): Promise<void> => {
    const found = await identify(client)
    first ??= found
    if (found !== first)
      throw new OtherDatabase(
        `another database answers at this address (number ${found} instead of ${first}): it was replaced, perhaps by a copy; restart this process to use it`,
      )
  })
}

export type SameDatabase = ReturnType<typeof makeSameDatabase>

import { sql } from "kysely"
import type { Session } from "../Session.ts"
import { query, statement } from "../Statement.ts"

/** Where a session leads. */
export interface Place {
  /**
   * Which tables these are, of all in the world: the server by the moment it started, the database and the table by their
   * numbers. So a copy of a database on another server is told from it, too.
   */
  readonly tables: string
  /** The server's process. */
  readonly backend: number
}

/** Needs no rights, and fails nowhere, since that would end a caller's transaction: where there is no such table, it is another one's place. */
const presentPlace = statement(() =>
  query.selectNoFrom([
    sql<string>`concat_ws(' ',
      extract(epoch from pg_catalog.pg_postmaster_start_time()),
      (select oid from pg_catalog.pg_database where datname = current_database()),
      (select oid from pg_catalog.pg_class where relname = 'jobs' and relnamespace =
        (select oid from pg_catalog.pg_namespace where concat('"', nspname, '".') = '"kiln".')))`.as("tables"),
    sql<number>`pg_backend_pid()`.as("backend"),
  ]),
)

export const readPlace = async (session: Session): Promise<Place> => {
  const place = await session.get(presentPlace, {})
  if (place === undefined) throw new TypeError("a SELECT without FROM has a row")
  return place
}

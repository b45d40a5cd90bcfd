import { sql } from "kysely"
import type { Session } from "../Session.ts"
import { query, statement } from "../Statement.ts"

/**
 * Which tables these are, of all in the world: the server by the moment it started, the database and the table by their numbers.
 * It needs no rights, and a copy of a database on another server is told from it. Without such a table it is another place than any.
 */
export const place = sql<string>`(
  select concat_ws(' ',
    extract(epoch from pg_catalog.pg_postmaster_start_time()),
    (select oid from pg_catalog.pg_database where datname = current_database()),
    to_regclass('"kiln".jobs')::oid))`

const presentPlace = statement(() => query.selectNoFrom(place.as("place")))

/** Where this session's tables are. */
export const readPlace = async (session: Session): Promise<string> =>
  (await session.get(presentPlace, {}))?.place ?? "nowhere"

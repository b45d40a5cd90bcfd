import * as Effect from "effect/Effect"
import { type PlaceFacts, StorePlace } from "@kiln/core/ports"
import type { Database } from "./connection/Database.ts"
import type { PostgresOptions } from "./connection/options.ts"
import type { Session } from "./connection/Session.ts"

/** A schema as its server knows it. */
export interface SchemaIdentity {
  /** The server's data directory, also of its replicas; `null` where the server does not tell. */
  readonly system: string | null
  /** The number of the database. It keeps it when it is renamed, and a copy gets another one. */
  readonly database: string
  /** The number of kiln's table of secrets. It changes when the tables are created again, for example by `pg_restore --clean`. */
  readonly table: string
  /** Grows when a replica is promoted, and when a base backup is restored; `null` where the server does not tell. */
  readonly timeline: string | null
  /** Host, port, database and schema, as this process addresses them. */
  readonly address: string
}

interface Row {
  readonly name: string
  readonly database: string
  readonly table: string
  readonly tellsSystem: boolean
  readonly tellsTimeline: boolean
}

/** Managed servers may forbid these functions, and a replica has no write position. */
const basics = `
SELECT datname AS name, oid::text AS database, ('"kiln".secrets'::regclass)::oid::text AS table,
  has_function_privilege('pg_catalog.pg_control_system()', 'execute') AS "tellsSystem",
  has_function_privilege('pg_catalog.pg_current_wal_lsn()', 'execute') AND NOT pg_is_in_recovery() AS "tellsTimeline"
FROM pg_database WHERE datname = current_database()`
const systemText = "SELECT system_identifier::text AS text FROM pg_control_system()"
/** The first eight digits of the file that is being written. */
const timelineText = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) AS text"

const textOf = async (session: Session, sql: string): Promise<string | null> =>
  (await session.execute<{ readonly text: string }>(sql))[0]?.text ?? null

const readIdentity = async (session: Session, address: string) => {
  const [row] = await session.execute<Row>(basics)
  if (row === undefined) throw new TypeError("the database is not in its own catalog")
  const { database, name, table, tellsSystem, tellsTimeline } = row
  const [system, timeline] = await Promise.all([
    tellsSystem ? textOf(session, systemText) : null,
    tellsTimeline ? textOf(session, timelineText) : null,
  ])
  const identity: SchemaIdentity = { system, database, table, timeline, address }
  return { identity, name }
}

const isText = (value: unknown): value is string => typeof value === "string"
const isTextOrNull = (value: unknown): value is string | null => value === null || isText(value)

/** Decodes a kept identity; `undefined` for anything else. */
const decode = (document: string): SchemaIdentity | undefined => {
  const kept: unknown = JSON.parse(document)
  if (typeof kept !== "object" || kept === null) return undefined
  const { address, database, system, table, timeline } = kept as { readonly [Field in keyof SchemaIdentity]?: unknown }
  return isText(address) && isText(database) && isText(table) && isTextOrNull(system) && isTextOrNull(timeline)
    ? { address, database, system, table, timeline }
    : undefined
}

const isEqualOrUnknown = (one: string | null, other: string | null): boolean =>
  one === null || other === null || one === other

/**
 * Whether both are the same schema. Processes may address a server by different names, and a promoted replica has another timeline,
 * so only both together mean a restored server.
 */
export const isSameSchema = (kept: SchemaIdentity, now: SchemaIdentity): boolean =>
  isEqualOrUnknown(kept.system, now.system) &&
  kept.database === now.database &&
  kept.table === now.table &&
  (isEqualOrUnknown(kept.timeline, now.timeline) || kept.address === now.address)

const placeOf = (identity: SchemaIdentity, name: string, schema: string): PlaceFacts => {
  const { address, database, system, timeline } = identity
  const server = system === null ? "" : ` of server ${system}`
  const host = address.slice(0, address.indexOf("/"))
  const since = timeline === null ? "" : `, timeline ${Number.parseInt(timeline, 16)}`
  return {
    description: `the database ${name}${host === "" ? "" : ` at ${host}`} (number ${database}${server}${since}), schema ${schema}`,
    document: JSON.stringify(identity),
    isSame: (document) => {
      const kept = decode(document)
      return kept !== undefined && isSameSchema(kept, identity)
    },
  }
}

export const readPlace = async (
  session: Session,
  { address, schema }: { readonly address: string; readonly schema: string },
): Promise<PlaceFacts> => {
  const { identity, name } = await readIdentity(session, `${address} ${schema}`)
  return placeOf(identity, name, schema)
}

/** Tells where the schema is; nothing if copies are allowed. */
export const makePostgresPlace = (
  db: Pick<Database, "read">,
  connections: { readonly address: string; readonly schema: string },
  { allowCopies = false }: Pick<PostgresOptions, "allowCopies">,
): StorePlace["Service"] =>
  StorePlace.of({
    read: allowCopies ? Effect.undefined : db.read("StorePlace.read", (session) => readPlace(session, connections)),
  })

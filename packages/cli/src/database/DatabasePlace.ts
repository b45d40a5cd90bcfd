/** Location of the records. */
export type DatabasePlace = SqlitePlace | PostgresPlace

export interface SqlitePlace {
  readonly _tag: "Sqlite"
  /** Absolute path of the file. */
  readonly path: string
  /** Whether a copy of the database may be used like the original; false by default. */
  readonly allowCopies?: boolean
}

export interface PostgresPlace {
  readonly _tag: "Postgres"
  /** Contains the password; use `describeDatabase` in messages. */
  readonly url: string
  readonly schema: string
  /** Maximum number of connections of this process. */
  readonly poolSize: number
  /** Whether LISTEN and NOTIFY signal new work. */
  readonly notifications: boolean | "send"
  /** The connection pooler in front of the database. */
  readonly pooler: "none" | "transaction"
  /** Whether a copy of the database may be used like the original; false by default. */
  readonly allowCopies?: boolean
}

/** Names a database in a sentence, without user, password and parameters. */
export const describeDatabase = (place: DatabasePlace): string => {
  if (place._tag === "Sqlite") return `the database ${place.path}`
  const { hostname, pathname, port } = new URL(place.url)
  const host = hostname === "" ? "" : ` at ${hostname}:${port === "" ? "5432" : port}`
  const name = pathname.replace(/^\//, "")
  const schema = place.schema === "kiln" ? "" : `, schema ${place.schema}`
  return `the Postgres database${name === "" ? "" : ` ${name}`}${host}${schema}`
}

/** Where the records are. */
export type DatabasePlace = SqlitePlace | PostgresPlace

export interface SqlitePlace {
  readonly _tag: "Sqlite"
  /** Of the file, absolute. */
  readonly path: string
}

export interface PostgresPlace {
  readonly _tag: "Postgres"
  /** Holds the password: `describeDatabase` is what people read. */
  readonly url: string
  readonly schema: string
  /** Connections of this process at most. */
  readonly poolSize: number
  /** Whether LISTEN and NOTIFY hint at new work. */
  readonly notifications: boolean | "send"
  /** What stands between this process and the database. */
  readonly pooler: "none" | "transaction"
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

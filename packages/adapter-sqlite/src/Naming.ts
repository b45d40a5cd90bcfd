import { appliedMigrations } from "./appliedMigrations.ts"
import { initial } from "./migrations/0001Initial.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"
import type { Tables } from "./Tables.ts"

/** What the names of kiln's tables begin with: it may share the file with a program that has tables of its own. */
export const prefix = "kiln_"

const tables: Readonly<Record<keyof Tables, true>> = {
  lanes: true,
  fairness: true,
  jobs: true,
  job_data: true,
  checkpoints: true,
  files: true,
  charges: true,
  closed_ledger: true,
  store_time: true,
  purges: true,
  uploads: true,
  projects: true,
  api_keys: true,
  key_secrets: true,
  secrets: true,
  switches: true,
  paused_kinds: true,
  prices: true,
  workers: true,
  blob_lineage: true,
  served_kinds: true,
}

/** Without the prefix. */
const tableNames = Object.keys(tables)

export const isTable = (name: string): boolean => Object.hasOwn(tables, name)

/**
 * Every text of SQL is written with the prefix; this makes of it what the file at hand understands. Indexes and triggers have
 * the name of their table in front, and so its prefix.
 */
export type Naming = (sql: string) => string

export const withPrefix: Naming = (sql) => sql

const prefixOfOurs = new RegExp(`\\b${prefix}(?=${tableNames.join("|")})`, "g")
const known = new Map<string, string>()

/** The texts are few, and asked for again by every transaction of a caller's. */
export const withoutPrefix: Naming = (sql) => {
  const named = known.get(sql) ?? sql.replaceAll(prefixOfOurs, "")
  known.set(sql, named)
  return named
}

/**
 * How the tables of this file are named. Databases of the first versions have names without the prefix and keep them, since
 * processes of those versions may run beside this one; all others have it. A program may have tables of the same names in
 * either, so what counts is which names more of the tables bear.
 */
export const namingOf = (connection: SqliteDatabase): Naming => {
  if (!appliedMigrations(connection).some(({ name }) => name === initial.name)) return withPrefix
  const rows = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all([]) as ReadonlyArray<{
    readonly name: string
  }>
  const present = new Set(rows.map(({ name }) => name))
  const bare = tableNames.filter((name) => present.has(name))
  const prefixed = tableNames.filter((name) => present.has(`${prefix}${name}`))
  return bare.length > prefixed.length ? withoutPrefix : withPrefix
}

import { prefix } from "../TableNames.ts"
import type { SqlValue } from "../SqliteDatabase.ts"

/** How a row leaves the store: times, counts and texts as they are, flags as booleans. */
export type CopyRow = Readonly<Record<string, string | number | boolean | null | Uint8Array>>

/**
 * What a copy consists of, in an order in which nothing refers to what comes later. `workers` is left out, because workers
 * publish again; `store_time` too, because it is this store's own.
 */
export const copyTables = [
  "switches",
  "paused_kinds",
  "prices",
  "projects",
  "api_keys",
  "key_secrets",
  "secrets",
  "uploads",
  "fairness",
  "lanes",
  "jobs",
  "job_data",
  "checkpoints",
  "files",
  "charges",
  "closed_ledger",
  "purges",
  "blob_lineage",
  "served_kinds",
] as const

export type CopyTable = (typeof copyTables)[number]

export const countAll = (table: CopyTable): string => `SELECT count(*) AS count FROM ${prefix}${table}`

/** In the order of creation where there is one. */
const order: Readonly<Record<CopyTable, string>> = {
  switches: "name",
  paused_kinds: "kind",
  prices: "id",
  projects: "seq",
  api_keys: "seq",
  key_secrets: "rowid",
  secrets: "name",
  uploads: "seq",
  fairness: "id",
  lanes: "id",
  jobs: "seq",
  job_data: "job_seq",
  checkpoints: "job_seq, step",
  files: "seq",
  charges: "rowid",
  closed_ledger: "id",
  purges: "id",
  blob_lineage: "id",
  served_kinds: "kind",
}

/** All columns, those of later migrations too: a target that has no place for one says so. */
export const selectAll = (table: CopyTable): string =>
  table === "checkpoints"
    ? "SELECT kiln_jobs.id AS job_id, step, value FROM kiln_checkpoints JOIN kiln_jobs ON kiln_jobs.seq = job_seq ORDER BY job_seq, step"
    : `SELECT * FROM ${prefix}${table} ORDER BY ${order[table]}`

const flags = new Set(["enabled", "active", "erased", "held"])

/** That a lane has priorities only spares this store's claims a look. */
const laneOf = ({ prioritized: _, ...row }: CopyRow): CopyRow => row

/** The driver hands out Node buffers, which write themselves as something else than bytes. */
const plain = (value: SqlValue): SqlValue => (value instanceof Uint8Array ? Uint8Array.from(value) : value)

/** A row as it leaves the store. */
export const copyRow = (table: CopyTable, row: Readonly<Record<string, SqlValue>>): CopyRow => {
  const copied: CopyRow = Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, flags.has(name) ? value === 1 : plain(value)]),
  )
  return table === "lanes" ? laneOf(copied) : copied
}

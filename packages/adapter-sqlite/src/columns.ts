import {
  columns as common,
  endColumns,
  progressColumns,
  type ColumnOf as Name,
  generated,
  integer,
  json,
  nullable,
  type RowsOf,
  selectOf,
  type TablesOf,
  text,
  type ValuesOf,
} from "@kiln/sql-store"
import type { JobStatus, SpendOwner } from "@kiln/core/domain"

/** A boolean, as SQLite stores it. */
export type Flag = 0 | 1

/**
 * Every column of the schema: those that both databases have, and those of this one. A test compares them with the migrated schema.
 * The table names here lack the prefix of `tablePrefix`.
 */
export const columns = {
  ...common,
  lanes: { ...common.lanes, ranks: generated(integer()) },
  jobs: {
    ...common.jobs,
    lane_id: integer(),
    status: text<JobStatus>(),
    ...progressColumns,
    held: integer<Flag>(),
    claimable_at: nullable(integer()),
    deadline_at: nullable(integer()),
    phase_started_at: nullable(integer()),
    finished_at: nullable(integer()),
    ...endColumns,
  },
  job_data: { job_seq: integer(), request: json() },
  checkpoints: { job_seq: integer(), ...common.checkpoints },
  reserved: { owner: text<SpendOwner>(), currency: text(), amount: text(), count: integer() },
  store_time: { id: integer<1>(), latest: integer() },
} as const

/** The prefix of kiln's table names, since the file may be shared with a program that has tables of its own. */
export const tablePrefix = "kiln_"

/** Takes a name without the prefix. */
export const isTable = (name: string): boolean => Object.hasOwn(columns, name)

type Columns = typeof columns
export type Table = keyof Columns
export type ColumnOf<T extends Table> = Name<Columns, T>

/** The schema as Kysely sees it. `charges` is written by a trigger. */
export type Tables = TablesOf<Columns, Flag>

/** Values of columns under their names in TypeScript: `Values<"jobs", "lane_id">` is `{ readonly laneId: number }`. */
export type Values<T extends Table, C extends ColumnOf<T>> = ValuesOf<Columns, T, C, Flag>

/** The same values under the names of the columns, as a table has them. */
export type Row<T extends Table, C extends ColumnOf<T>> = RowsOf<Columns, T, C, Flag>

/** A select list: `select("jobs", "lane_id")` is `["jobs.lane_id as laneId"]`. */
export const select = selectOf<Columns>()

export { assign, camel, type JsonText } from "@kiln/sql-store"

/** A value of a row that is copied. */
export type CopyValue = string | number | boolean | null | Uint8Array
export type CopyRow = Readonly<Record<string, CopyValue>>

/** Rows for one table of this store. */
interface Placed {
  readonly table: string
  readonly rows: ReadonlyArray<CopyRow>
}

/** What stands in a job's own row only once it has ended. */
const unended = {
  status: null,
  token: null,
  ran_ms: null,
  waited_ms: null,
  attempts: null,
  failures: null,
  lost_workers: null,
  finished_at: null,
} as const

/** What a job's two rows have under the same name. */
const shared = [
  "id",
  "project_id",
  "kind",
  "mode",
  "priority",
  "created_at",
  "queue_limit_ms",
  "run_limit_ms",
  "status",
  "token",
  "ran_ms",
  "waited_ms",
  "attempts",
  "failures",
  "lost_workers",
] as const

const isFinished = ({ status }: CopyRow): boolean => status === "done" || status === "failed"

/** What only an unfinished job has. */
const queued = ["lane_id", "held", "claimable_at", "deadline_at", "phase_started_at"] as const

const only = (row: CopyRow, names: ReadonlyArray<string>): CopyRow =>
  Object.fromEntries(names.map((name) => [name, row[name] ?? null]))

/** The row that every job keeps. */
const jobRow = (row: CopyRow): CopyRow => {
  const job = Object.fromEntries(Object.entries(row).filter(([name]) => !queued.some((moved) => moved === name)))
  return isFinished(row) ? job : { ...job, ...unended }
}

const queueRow = (row: CopyRow): CopyRow => ({ ...only(row, [...shared, ...queued]), job_seq: row["seq"] ?? null })

/** Where rows of a table stand here: elsewhere than the others, a job is two rows until it ends. */
export const placesOf = (table: string, rows: ReadonlyArray<CopyRow>): ReadonlyArray<Placed> =>
  table === "jobs"
    ? [
        { table, rows: rows.map(jobRow) },
        { table: "queue", rows: rows.filter((row) => !isFinished(row)).map(queueRow) },
      ]
    : [{ table, rows }]

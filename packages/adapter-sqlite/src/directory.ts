import { sql } from "kysely"
import type { JobId, JobMode, JobStatus, ProjectId } from "@kiln/core/domain"
import { type JobCount, JobDirectory, type JobList, type JobPage, type JobSummary } from "@kiln/core/ports"
import { select } from "./columns.ts"
import type { Database } from "./Database.ts"
import { jobById, jobOf, priorityOf } from "./jobs/JobRow.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

// Lists

/** Maximum number of rows that one page reads. A rare match yields short pages, so that other callers are served in between. */
const maxRowsRead = 2_000

/** A position in a list. The empty id sorts before every id. */
interface Position {
  readonly time: number
  readonly id: JobId | ""
}

/** Jobs before `time` and `id`, down to `downToTime` and `downToId`. */
type Range = {
  readonly time: number
  readonly id: JobId | ""
  readonly downToTime: number
  readonly downToId: JobId | ""
}

const jobsIn = (given: Given<Range>) =>
  query
    .selectFrom("jobs")
    .where(sql<boolean>`(created_at, id) < (${given.time}, ${given.id})`)
    .where(sql<boolean>`(created_at, id) >= (${given.downToTime}, ${given.downToId})`)
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")

/** The last position that a page may read, from the index alone. */
export const furthestPosition = statement((given: Given<Range & { readonly rows: number }>) =>
  jobsIn(given)
    .select(["created_at as time", "id"])
    .limit(1)
    .offset(sql<number>`${given.rows} - 1`),
)

/** `null` matches everything. */
type Filter = {
  readonly projectId: ProjectId | null
  readonly kind: string | null
  readonly mode: JobMode | null
  readonly status: JobStatus | null
}

export const jobsInRange = statement((given: Given<Range & Filter & { readonly limit: number }>) =>
  jobsIn(given)
    .select(
      select(
        "jobs",
        "id",
        "project_id",
        "key_id",
        "mode",
        "kind",
        "kind_version",
        "priority",
        "status",
        "error_code",
        "warning_code",
        "retained",
        "attempts",
        "failures",
        "lost_workers",
        "created_at",
        "claimable_at",
        "finished_at",
      ),
    )
    .where(sql<boolean>`(${given.projectId} IS NULL OR project_id = ${given.projectId})`)
    .where(sql<boolean>`(${given.kind} IS NULL OR kind = ${given.kind})`)
    .where(sql<boolean>`(${given.mode} IS NULL OR mode = ${given.mode})`)
    .where(sql<boolean>`(${given.status} IS NULL OR status = ${given.status})`)
    .limit(given.limit),
)

const cursorOf = ({ id, time }: Position): string => `${time} ${id}`

const positionOf = (cursor: string): Position => {
  const [, time, id] = /^(\d{1,16}) (job_[0-9a-z]+)$/.exec(cursor) ?? []
  if (time === undefined || id === undefined) throw new TypeError("invalid cursor")
  return { time: Number(time), id: id as JobId }
}

const summaryOf = (row: RowOf<typeof jobsInRange>): JobSummary => ({
  ...row,
  priority: priorityOf(row.priority, row.id),
})

/** Reads one row more than requested, which tells whether another page follows. */
const listJobs = (tx: Transaction, page: JobPage): JobList => {
  const { after, createdFrom = 0, createdTo = Number.MAX_SAFE_INTEGER, limit } = page
  const cursor = after === undefined ? undefined : positionOf(after)
  const from: Position = cursor === undefined || cursor.time >= createdTo ? { time: createdTo, id: "" } : cursor
  const range = { time: from.time, id: from.id, downToTime: createdFrom, downToId: "" as const }
  const furthest = tx.get(furthestPosition, { ...range, rows: Math.max(maxRowsRead, limit) })
  const rows = tx.all(jobsInRange, {
    ...range,
    ...(furthest && { downToTime: furthest.time, downToId: furthest.id }),
    projectId: page.projectId ?? null,
    kind: page.kind ?? null,
    mode: page.mode ?? null,
    status: page.status ?? null,
    limit: limit + 1,
  })
  const last = rows.length > limit ? rows[limit - 1] : undefined
  const end = last === undefined ? furthest : { time: last.createdAt, id: last.id }
  return { jobs: rows.slice(0, limit).map(summaryOf), next: end && cursorOf(end) }
}

// Counts

type Unfinished = { readonly projectId: ProjectId | null; readonly now: number }

const stateOf = ({ now }: Pick<Given<Unfinished>, "now">) =>
  sql<JobStatus | "delayed">`CASE WHEN status = 'queued' AND claimable_at > ${now} THEN 'delayed' ELSE status END`

/**
 * Reads the unfinished jobs lane by lane, from the index of ready jobs. The cross join makes SQLite read the lanes first, so a
 * count for one project reads only that project's jobs.
 */
export const unfinishedByStatus = statement((given: Given<Unfinished>) =>
  query
    .selectFrom("lanes")
    .crossJoin("jobs")
    .select((of) => ["jobs.kind", "jobs.mode", stateOf(given).as("state"), of.fn.countAll<number>().as("count")])
    .where(sql<boolean>`(${given.projectId} IS NULL OR ${sql.ref("lanes.project_id")} = ${given.projectId})`)
    .whereRef("jobs.lane_id", "=", "lanes.id")
    .where("claimable_at", "is not", null)
    .groupBy(["jobs.kind", "jobs.mode", "state"]),
)

type Finished = {
  readonly projectId: ProjectId | null
  readonly retained: (typeof retentions)[number]
  readonly finishedAfter: number
}

/** The index of finished jobs is ordered by what they retain, so each value is a range of its own. */
export const finishedByStatus = statement((given: Given<Finished>) =>
  query
    .selectFrom("jobs")
    .select((of) => ["kind", "mode", "status as state", of.fn.countAll<number>().as("count")])
    .where(sql<boolean>`(${given.projectId} IS NULL OR project_id = ${given.projectId})`)
    .where("retained", "=", given.retained)
    .where("finished_at", ">", given.finishedAfter)
    .groupBy(["kind", "mode", "state"]),
)

const retentions = ["kept", "expired", "deleted"] as const

const countJobs = (
  tx: Transaction,
  question: { readonly finishedWithinMs: number; readonly projectId?: ProjectId | undefined },
): ReadonlyArray<JobCount> => {
  const { now } = tx
  const projectId = question.projectId ?? null
  const finishedAfter = now - question.finishedWithinMs
  const rows = [
    ...tx.all(unfinishedByStatus, { projectId, now }),
    ...retentions.flatMap((retained) => tx.all(finishedByStatus, { projectId, retained, finishedAfter })),
  ]
  return summed(rows.map(({ count, kind, mode, state: status }) => ({ kind, mode, status, count })))
}

const nameOf = ({ kind, mode, status }: JobCount): string => `${kind} ${mode} ${status}`

/** Adds up the counts of several index ranges, and sorts them. */
const summed = (counts: ReadonlyArray<JobCount>): ReadonlyArray<JobCount> => {
  const sums = new Map<string, JobCount>()
  for (const part of counts) {
    const name = nameOf(part)
    sums.set(name, { ...part, count: part.count + (sums.get(name)?.count ?? 0) })
  }
  return [...sums.keys()].sort().flatMap((name) => sums.get(name) ?? [])
}

export const makeSqliteJobDirectory = (db: Database): JobDirectory["Service"] =>
  JobDirectory.of({
    listJobs: (page) => db.read("JobDirectory.listJobs", (tx) => listJobs(tx, page)),
    countJobs: (question) => db.read("JobDirectory.countJobs", (tx) => countJobs(tx, question)),
    readJobs: (jobIds) =>
      db.read("JobDirectory.readJobs", (tx) =>
        jobIds.map((id) => {
          const row = tx.get(jobById, { id })
          return row && jobOf(tx, row)
        }),
      ),
  })

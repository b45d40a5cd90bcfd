import { sql } from "kysely"
import type { JobId, JobMode, JobStatus, ProjectId } from "@kiln/core/domain"
import type { JobList, JobPage, JobSummary } from "@kiln/core/ports"
import { priorityOf } from "../JobRow.ts"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Rows that one page looks through: whoever asks for what is rare gets short pages, and others are served in between. */
const mostLookedAt = 2_000

/** A place in the order of a list. No id is empty, so the empty one stands before everything of its instant. */
interface Place {
  readonly time: number
  readonly id: JobId | ""
}

type Stretch = { time: number; id: JobId | ""; downToTime: number; downToId: JobId | "" }

const stretchOf = (given: Given<Stretch>) =>
  query
    .selectFrom("jobs")
    .where(sql<boolean>`(created_at, id) < (${given.time}, ${given.id})`)
    .where(sql<boolean>`(created_at, id) >= (${given.downToTime}, ${given.downToId})`)
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")

/** How far a page may look, read from the index alone. */
export const furthestPlace = statement((given: Given<Stretch & { lookAt: number }>) =>
  stretchOf(given)
    .select(["created_at as time", "id"])
    .limit(1)
    .offset(sql<number>`${given.lookAt} - 1`),
)

/** What is null is not asked for. */
type Wanted = { projectId: ProjectId | null; kind: string | null; mode: JobMode | null; status: JobStatus | null }

export const jobsInStretch = statement((given: Given<Stretch & Wanted & { limit: number }>) =>
  stretchOf(given)
    .select([
      "id",
      "project_id as projectId",
      "key_id as keyId",
      "mode",
      "kind",
      "kind_version as kindVersion",
      "priority",
      "status",
      "error_code as errorCode",
      "warning_code as warningCode",
      "retained",
      "attempts",
      "failures",
      "lost_workers as lostWorkers",
      "created_at as createdAt",
      "claimable_at as claimableAt",
      "finished_at as finishedAt",
    ])
    .where(sql<boolean>`(${given.projectId} IS NULL OR project_id = ${given.projectId})`)
    .where(sql<boolean>`(${given.kind} IS NULL OR kind = ${given.kind})`)
    .where(sql<boolean>`(${given.mode} IS NULL OR mode = ${given.mode})`)
    .where(sql<boolean>`(${given.status} IS NULL OR status = ${given.status})`)
    .limit(given.limit),
)

const cursorOf = ({ id, time }: Place): string => `${time} ${id}`

const placeOf = (cursor: string): Place => {
  const [, time, id] = /^(\d{1,16}) (job_[0-9a-z]+)$/.exec(cursor) ?? []
  if (time === undefined || id === undefined) throw new TypeError("invalid cursor")
  return { time: Number(time), id: id as JobId }
}

const summaryOf = (row: RowOf<typeof jobsInStretch>): JobSummary => ({
  ...row,
  priority: priorityOf(row.priority, row.id),
})

/** Walks the index of times from where the page before ended. One row more than asked for tells whether another page follows. */
export const listJobs = (tx: Transaction, page: JobPage): JobList => {
  const { after, createdFrom = 0, createdTo = Number.MAX_SAFE_INTEGER, limit } = page
  const cursor = after === undefined ? undefined : placeOf(after)
  const from: Place = cursor === undefined || cursor.time >= createdTo ? { time: createdTo, id: "" } : cursor
  const all = { time: from.time, id: from.id, downToTime: createdFrom, downToId: "" as const }
  const furthest = tx.get(furthestPlace, { ...all, lookAt: Math.max(mostLookedAt, limit) })
  const rows = tx.all(jobsInStretch, {
    ...all,
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

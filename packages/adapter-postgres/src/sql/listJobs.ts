import { sql } from "kysely"
import type { JobId, JobMode, JobStatus, ProjectId } from "@kiln/core/domain"
import type { JobList, JobPage, JobSummary } from "@kiln/core/ports"
import { either, priorityOf } from "../JobRow.ts"
import type { Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

/** Rows that one page looks through in each part of the index: whoever asks for what is rare gets short pages. */
const mostLookedAt = 1_000

/** A part of the index: all that is unfinished, or all that ended in one way. */
type Part = { part: "unfinished" | "done" | "failed" }

/** What is null is not asked for. Places are before (`time`, `id`); no id is empty, so the empty one stands before everything of its instant. */
type Page = {
  time: number
  id: JobId | ""
  from: number
  lookAt: number
  limit: number
  projectId: ProjectId | null
  kind: string | null
  mode: JobMode | null
  status: JobStatus | null
}

type Place = Pick<JobSummary, "createdAt" | "id">

interface ListRow extends Omit<JobSummary, "priority"> {
  readonly priority: number
  readonly part: Part["part"]
  /** Counted from 1 in its part. */
  readonly place: number
  readonly matches: boolean
}

/**
 * Parts are walked each by itself, newest first, as far as a page may look. What does not match stays out, but for the last
 * one that was looked at. In one statement: a job that ends meanwhile is in one part.
 */
export const jobsBefore = batchStatement<Part, Page, ListRow>({ part: "text" }, (item, given) => {
  const looked = query
    .selectFrom(
      query
        .selectFrom("jobs")
        .select(["jobs.seq", "jobs.project_id", "jobs.kind", "jobs.mode"])
        .where(sql<boolean>`coalesce(jobs.status, 'unfinished') = item.part`)
        .where(sql<boolean>`(jobs.created_at, jobs.id) < (${given.time}, ${given.id})`)
        .where("jobs.created_at", ">=", given.from)
        .orderBy("jobs.created_at", "desc")
        .orderBy("jobs.id", "desc")
        .limit(given.lookAt)
        .as("walked"),
    )
    .leftJoin("queue", "queue.job_seq", "walked.seq")
    .select([
      "walked.seq",
      sql<number>`row_number() over ()`.as("place"),
      sql<boolean>`(${given.projectId}::text is null or walked.project_id = ${given.projectId})
        and (${given.kind}::text is null or walked.kind = ${given.kind})
        and (${given.mode}::text is null or walked.mode = ${given.mode})
        and (${given.status}::text is null or coalesce(queue.status, item.part) = ${given.status})`.as("matches"),
    ])
  return query
    .selectFrom(item)
    .innerJoinLateral(
      () =>
        query
          .selectFrom(looked.as("looked"))
          .selectAll()
          .where((where) => where.or([where("matches", "=", true), where("place", "=", given.lookAt)]))
          .limit(given.limit)
          .as("found"),
      (join) => join.onTrue(),
    )
    .innerJoin("jobs", "jobs.seq", "found.seq")
    .leftJoin("queue", "queue.job_seq", "jobs.seq")
    .select(["item.part", "found.place", "found.matches"])
    .select([
      "jobs.id",
      "jobs.project_id as projectId",
      "jobs.key_id as keyId",
      "jobs.mode",
      "jobs.kind",
      "jobs.kind_version as kindVersion",
      "jobs.priority",
      "jobs.error_code as errorCode",
      "jobs.warning_code as warningCode",
      "jobs.retained",
      "jobs.created_at as createdAt",
      "jobs.finished_at as finishedAt",
      "queue.claimable_at as claimableAt",
    ])
    .select([
      either<JobStatus>("status").as("status"),
      either<number>("attempts").as("attempts"),
      either<number>("failures").as("failures"),
      either<number>("lost_workers").as("lostWorkers"),
    ])
    .orderBy("jobs.created_at", "desc")
    .orderBy("jobs.id", "desc")
})

const parts: ReadonlyArray<Part> = [{ part: "unfinished" }, { part: "done" }, { part: "failed" }]

const partsOf = (status: JobStatus | undefined): ReadonlyArray<Part> =>
  parts.filter(({ part }) => status === undefined || part === status || (part === "unfinished" && isUnfinished(status)))

const isUnfinished = (status: JobStatus): boolean => status === "queued" || status === "processing"

const cursorOf = ({ createdAt, id }: Place): string => `${createdAt} ${id}`

const placeOf = (cursor: string): Place => {
  const [, createdAt, id] = /^(\d{1,16}) (job_[0-9a-z]+)$/.exec(cursor) ?? []
  if (createdAt === undefined || id === undefined) throw new TypeError("invalid cursor")
  return { createdAt: Number(createdAt), id: id as JobId }
}

/** Whole milliseconds: a fraction more is the next. */
const wholeTime = (time: number): number => Math.ceil(Math.min(Math.max(time, 0), Number.MAX_SAFE_INTEGER))

const startOf = ({ after, createdTo = Infinity }: JobPage): { readonly time: number; readonly id: JobId | "" } => {
  const to = wholeTime(createdTo)
  const place = after === undefined ? undefined : placeOf(after)
  return place === undefined || place.createdAt >= to ? { time: to, id: "" } : { time: place.createdAt, id: place.id }
}

/** Newest first, as the rows come. */
const isBefore = (a: Place, b: Place): boolean =>
  a.createdAt > b.createdAt || (a.createdAt === b.createdAt && a.id > b.id)

/** Where it is known of all parts what is there: the newest of the places at which one of them was left. */
const frontierOf = (rows: ReadonlyArray<ListRow>, lookAt: number, limit: number): ListRow | undefined => {
  const ends = [...Map.groupBy(rows, ({ part }) => part).values()].flatMap((found) => {
    const last = found.at(-1)
    return last !== undefined && (found.length === limit || last.place === lookAt) ? [last] : []
  })
  return ends.reduce<ListRow | undefined>((first, end) => (first && isBefore(first, end) ? first : end), undefined)
}

const summaryOf = ({ matches: _matches, part: _part, place: _place, ...row }: ListRow): JobSummary => ({
  ...row,
  priority: priorityOf(row),
})

/** One row more than asked for tells whether another page follows. */
export const listJobs = async (session: Session, page: JobPage): Promise<JobList> => {
  const lookAt = Math.max(mostLookedAt, page.limit + 1)
  const rows = await session.batch(jobsBefore, partsOf(page.status), {
    ...startOf(page),
    from: wholeTime(page.createdFrom ?? 0),
    lookAt,
    limit: page.limit + 1,
    projectId: page.projectId ?? null,
    kind: page.kind ?? null,
    mode: page.mode ?? null,
    status: page.status ?? null,
  })
  const frontier = frontierOf(rows, lookAt, page.limit + 1)
  const known = rows.filter((row) => row.matches && (frontier === undefined || !isBefore(frontier, row)))
  const jobs = known.slice(0, page.limit)
  const end = known.length > page.limit ? jobs.at(-1) : frontier
  return { jobs: jobs.map(summaryOf), next: end && cursorOf(end) }
}

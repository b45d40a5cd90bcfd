import { sql } from "kysely"
import type { Job, JobId, JobMode, JobStatus, ProjectId, RetainedData } from "@kiln/core/domain"
import { type JobCount, JobDirectory, type JobList, type JobPage, type JobSummary } from "@kiln/core/ports"
import { either, jobOf, jobsById, priorityOf, retained, retainedPart, statusPart } from "./jobs/jobRow.ts"
import { measureQueue } from "./queueDepth.ts"
import type { Session } from "./Session.ts"
import { ago, batchStatement, type Given, query, storeTime, wholeAge } from "./Statement.ts"
import type { Database } from "./Database.ts"

/** Maximum number of rows that a page examines in each part: rare matches give short pages. */
const mostLookedAt = 1_000

/** Unfinished jobs, which are in the queue, or done or failed ones, which are two parts of an index of results. */
type Part = { part: "unfinished" | "done" | "failed" }

/** Filters; null matches everything. The page starts before (`time`, `id`); the empty id sorts before every id of the same time. */
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
  /** Position in its part, from 1. */
  readonly place: number
  readonly matches: boolean
}

/** The newest jobs of the part that `item` names, unfinished or finished: one of the two has none. */
const walk = (given: Given<Page>) => {
  const unfinished = query
    .selectFrom("queue")
    .select(["job_seq as seq", "project_id", "kind", "mode", sql<JobStatus>`status`.as("status")])
    .where(sql<boolean>`item.part = 'unfinished'`)
    .where(sql<boolean>`(created_at, id) < (${given.time}, ${given.id})`)
    .where("created_at", ">=", given.from)
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")
    .limit(given.lookAt)
  const finished = query
    .selectFrom("results")
    .select(["job_seq as seq", "project_id", "kind", "mode", sql<JobStatus>`status`.as("status")])
    .where(sql<boolean>`${statusPart} = item.part`)
    .where(sql<boolean>`(created_at, job_id) < (${given.time}, ${given.id})`)
    .where("created_at", ">=", given.from)
    .orderBy("created_at", "desc")
    .orderBy("job_id", "desc")
    .limit(given.lookAt)
  return query
    .selectFrom(unfinished.as("unfinished"))
    .selectAll()
    .unionAll(query.selectFrom(finished.as("finished")).selectAll())
}

/**
 * Scans each part separately, newest first, up to `lookAt` rows. Returns matching rows, and the last row that was examined. One
 * statement, so a job that ends meanwhile is in one part only.
 */
export const jobsBefore = batchStatement<Part, Page, ListRow>({ part: "text" }, (item, given) => {
  const looked = query.selectFrom(walk(given).as("walked")).select([
    "walked.seq",
    sql<number>`row_number() over ()`.as("place"),
    sql<boolean>`(${given.projectId}::text is null or walked.project_id = ${given.projectId})
        and (${given.kind}::text is null or walked.kind = ${given.kind})
        and (${given.mode}::text is null or walked.mode = ${given.mode})
        and (${given.status}::text is null or walked.status = ${given.status})`.as("matches"),
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
    .leftJoin("queue", "queue.id", "jobs.id")
    .leftJoin("results", "results.job_seq", "jobs.seq")
    .select(["item.part", "found.place", "found.matches"])
    .select([
      "jobs.id",
      "jobs.project_id as projectId",
      "jobs.key_id as keyId",
      "jobs.mode",
      "jobs.kind",
      "jobs.kind_version as kindVersion",
      "jobs.priority",
      "jobs.created_at as createdAt",
      "results.error_code as errorCode",
      "results.warning_code as warningCode",
      "results.finished_at as finishedAt",
      "queue.claimable_at as claimableAt",
    ])
    .select([
      either<JobStatus>("status").as("status"),
      either<number>("attempts").as("attempts"),
      either<number>("failures").as("failures"),
      either<number>("lost_workers").as("lostWorkers"),
      retained.as("retained"),
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

/** Rounds up to whole milliseconds. */
const wholeTime = (time: number): number => Math.ceil(Math.min(Math.max(time, 0), Number.MAX_SAFE_INTEGER))

const startOf = ({ after, createdTo = Infinity }: JobPage): { readonly time: number; readonly id: JobId | "" } => {
  const to = wholeTime(createdTo)
  const place = after === undefined ? undefined : placeOf(after)
  return place === undefined || place.createdAt >= to ? { time: to, id: "" } : { time: place.createdAt, id: place.id }
}

/** Orders newest first. */
const isBefore = (a: Place, b: Place): boolean =>
  a.createdAt > b.createdAt || (a.createdAt === b.createdAt && a.id > b.id)

/** The position up to which all parts were scanned: the newest position at which the scan of a part stopped. */
const scannedUpTo = (rows: ReadonlyArray<ListRow>, lookAt: number, limit: number): ListRow | undefined => {
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

/** Reads one row more than requested, to know whether another page follows. */
const listJobs = async (session: Session, page: JobPage): Promise<JobList> => {
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
  const frontier = scannedUpTo(rows, lookAt, page.limit + 1)
  const known = rows.filter((row) => row.matches && (frontier === undefined || !isBefore(frontier, row)))
  const jobs = known.slice(0, page.limit)
  const end = known.length > page.limit ? jobs.at(-1) : frontier
  return { jobs: jobs.map(summaryOf), next: end && cursorOf(end) }
}

type Question = { projectId: ProjectId | null; finishedWithinMs: number }

const unfinished = query
  .selectFrom("lanes")
  .innerJoin("queue", "queue.lane_id", "lanes.id")
  .select((select) => [
    "lanes.kind",
    "lanes.mode",
    sql<JobCount["status"]>`case when queue.status = 'queued' and queue.claimable_at > ${storeTime}
      then 'delayed' else queue.status end`.as("status"),
    select.fn.countAll<number>().as("count"),
  ])
  .groupBy([sql.ref("lanes.kind"), sql.ref("lanes.mode"), sql`3`])

/** Counts recently finished jobs in the index, which separates kept, expired and deleted data. */
const countOf = (lanes: (given: Given<Question>) => typeof unfinished) =>
  batchStatement<{ retained: RetainedData }, Question, JobCount>({ retained: "text" }, (item, given) =>
    query
      .selectFrom(item)
      .innerJoinLateral(
        () =>
          query
            .selectFrom("results")
            .select((select) => [
              "results.kind",
              "results.mode",
              sql<JobCount["status"]>`results.status`.as("status"),
              select.fn.countAll<number>().as("count"),
            ])
            .where(sql<boolean>`${retainedPart} = item.retained`)
            .where("results.finished_at", ">", ago(given.finishedWithinMs))
            .where(sql<boolean>`(${given.projectId}::text is null or results.project_id = ${given.projectId})`)
            .groupBy(["results.kind", "results.mode", "results.status"])
            .as("finished"),
        (join) => join.onTrue(),
      )
      .select(["finished.kind", "finished.mode", "finished.status", "finished.count"])
      .unionAll(lanes(given)),
  )

/** Counts the whole queue, lane by lane. */
export const countAll = countOf(() => unfinished)
export const countOfProject = countOf((given) => unfinished.where(sql<boolean>`lanes.project_id = ${given.projectId}`))

const everything: ReadonlyArray<{ retained: RetainedData }> = [
  { retained: "kept" },
  { retained: "expired" },
  { retained: "deleted" },
]

const nameOf = ({ kind, mode, status }: JobCount): string => `${kind} ${mode} ${status}`

/** Counts in one statement, so a job that ends meanwhile is counted once. */
const countJobs = async (
  session: Session,
  question: { readonly finishedWithinMs: number; readonly projectId?: ProjectId | undefined },
): Promise<ReadonlyArray<JobCount>> => {
  const { finishedWithinMs, projectId = null } = question
  const counts = await session.batch(projectId === null ? countAll : countOfProject, everything, {
    projectId,
    finishedWithinMs: wholeAge(finishedWithinMs),
  })
  // The three parts of the index are added up.
  const sums = new Map<string, JobCount>()
  for (const part of counts)
    sums.set(nameOf(part), { ...part, count: part.count + (sums.get(nameOf(part))?.count ?? 0) })
  return [...sums.keys()].toSorted().flatMap((name) => sums.get(name) ?? [])
}

/** Regardless of owner, for the operator. */
const readJobs = async (session: Session, jobIds: ReadonlyArray<JobId>): Promise<ReadonlyArray<Job | undefined>> => {
  const rows = await session.batch(
    jobsById,
    jobIds.map((id) => ({ id })),
    {},
  )
  const jobs = new Map(rows.map((row) => [row.id, jobOf(row)]))
  return jobIds.map((id) => jobs.get(id))
}

export const makePostgresJobDirectory = (db: Database): JobDirectory["Service"] =>
  JobDirectory.of({
    listJobs: (page) => db.read("JobDirectory.listJobs", (session) => listJobs(session, page)),
    countJobs: (question) => db.read("JobDirectory.countJobs", (session) => countJobs(session, question)),
    measureQueue: ({ limit }) => db.read("JobDirectory.measureQueue", (session) => measureQueue(session, limit)),
    readJobs: (jobIds) => db.read("JobDirectory.readJobs", (session) => readJobs(session, jobIds)),
  })

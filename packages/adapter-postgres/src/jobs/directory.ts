import { sql } from "kysely"
import type { Job, JobId, JobMode, JobStatus, KeyId, ProjectId } from "@kiln/core/domain"
import { JobDirectory, type JobList, type JobPage, type JobSummary } from "@kiln/core/ports"
import { decodePriority, directoryVerbs, laneNames, listedMetadata } from "@kiln/sql-store"
import { countJobs, findPlace, hasLabels, listFinished, measureQueue } from "./counts.ts"
import { either, jobOf, jobsById, retained, statusPart } from "./jobRow.ts"
import type { Session } from "../connection/Session.ts"
import { select } from "../columns.ts"
import { batchStatement, type Given, plenty, query, statement, text } from "../Statement.ts"
import type { Database } from "../connection/Database.ts"
import { transactionsOf } from "../transactionsOf.ts"

/** Maximum number of rows that a page examines in each part: rare matches give short pages. */
const mostLookedAt = 1_000

/**
 * Unfinished jobs, which are in the queue, held or not; or done or failed ones, which are two parts of an index of results; or jobs
 * with a label.
 */
type Part = { part: "waiting" | "held" | "done" | "failed" | "labeled" }

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
  keyId: KeyId | null
  errorCode: string | null
  /** The label whose jobs are read; empty for the other parts. */
  label: string
  /** A JSON list of labels. */
  labels: string
}

type Place = Pick<JobSummary, "createdAt" | "id">

interface ListRow extends Omit<JobSummary, "priority" | "metadata"> {
  readonly kept: string
  readonly priority: number
  readonly part: Part["part"]
  /** Position in its part, from 1. */
  readonly place: number
  readonly matches: boolean
}

/** The newest jobs of the part that `item` names: the other parts have none. Held jobs are few, and sorted when they are read. */
const walk = (given: Given<Page>) => {
  const unfinished = (held: boolean) =>
    query
      .selectFrom("queue")
      .innerJoin(plenty, (join) => join.onTrue())
      .select(["job_seq as seq", "project_id", "kind", "mode", sql<JobStatus>`status`.as("status")])
      .select(sql<string | null>`null::text`.as("error_code"))
      .where(sql<boolean>`item.part = ${held ? "held" : "waiting"}`)
      .where("held", "=", held)
      .where(sql<boolean>`(created_at, id) < (${given.time}, ${given.id})`)
      .where("created_at", ">=", given.from)
      .orderBy("created_at", "desc")
      .orderBy("id", "desc")
      .limit(given.lookAt)
  const finished = query
    .selectFrom("results")
    .innerJoin(plenty, (join) => join.onTrue())
    .select(["job_seq as seq", "project_id", "kind", "mode", sql<JobStatus>`status`.as("status")])
    .select(sql<string | null>`error_code`.as("error_code"))
    .where(sql<boolean>`${statusPart} = item.part`)
    .where(sql<boolean>`(created_at, job_id) < (${given.time}, ${given.id})`)
    .where("created_at", ">=", given.from)
    .orderBy("created_at", "desc")
    .orderBy("job_id", "desc")
    .limit(given.lookAt)
  return query
    .selectFrom(unfinished(false).as("waiting"))
    .selectAll()
    .unionAll(query.selectFrom(unfinished(true).as("held")).selectAll())
    .unionAll(query.selectFrom(finished.as("finished")).selectAll())
}

/** The newest jobs that have a label. */
const walkLabeled = (given: Given<Page>) =>
  query
    .selectFrom("job_labels")
    .innerJoin(plenty, (join) => join.onTrue())
    .innerJoin("jobs", "jobs.seq", "job_labels.job_seq")
    .leftJoin("queue", "queue.id", "jobs.id")
    .leftJoin("results", "results.job_seq", "jobs.seq")
    .select(["jobs.seq", "jobs.project_id", "jobs.kind", "jobs.mode", either<JobStatus>("status").as("status")])
    .select(sql<string | null>`results.error_code`.as("error_code"))
    .where("job_labels.label", "=", given.label)
    .where(sql<boolean>`(job_labels.created_at, job_labels.job_id) < (${given.time}, ${given.id})`)
    .where("job_labels.created_at", ">=", given.from)
    .orderBy("job_labels.created_at", "desc")
    .orderBy("job_labels.job_id", "desc")
    .limit(given.lookAt)

/**
 * Scans each part separately, newest first, up to `lookAt` rows. Returns matching rows, and the last row that was examined. One
 * statement, so a job that ends meanwhile is in one part only.
 */
const jobsBeforeIn = (walkPart: typeof walk | typeof walkLabeled) =>
  batchStatement({ part: text<"waiting" | "held" | "done" | "failed" | "labeled">() }, (item, given: Given<Page>) => {
    const looked = query.selectFrom((walkPart as typeof walk)(given).as("walked")).select([
      "walked.seq",
      sql<number>`row_number() over ()`.as("place"),
      sql<boolean>`(${given.projectId}::text is null or walked.project_id = ${given.projectId})
        and (${given.kind}::text is null or walked.kind = ${given.kind})
        and (${given.mode}::text is null or walked.mode = ${given.mode})
        and (${given.status}::text is null or walked.status = ${given.status})
        and (${given.errorCode}::text is null or walked.error_code is not distinct from ${given.errorCode})
        and (${given.keyId}::text is null or
          (select own.key_id from "kiln".jobs as own where own.seq = walked.seq) = ${given.keyId})
        and ${walkPart === walk ? sql.lit(true) : hasLabels(sql<number>`walked.seq`, given.labels)}`.as("matches"),
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
      .select(select("jobs", "id", "created_at", ...laneNames, "key_id", "priority", "kept"))
      .select(select("results", "error_code", "warning_code", "finished_at"))
      .select(select("queue", "claimable_at", "phase_started_at"))
      .select([
        either<JobStatus>("status").as("status"),
        either<number>("attempts").as("attempts"),
        either<number>("failures").as("failures"),
        either<number>("lost_workers").as("lostWorkers"),
        retained.as("retained"),
        sql<boolean>`coalesce(queue.held, false)`.as("held"),
      ])
      .orderBy("jobs.created_at", "desc")
      .orderBy("jobs.id", "desc")
  })

const jobsBefore = jobsBeforeIn(walk)
const labeledBefore = jobsBeforeIn(walkLabeled)

const parts: ReadonlyArray<Part> = [{ part: "waiting" }, { part: "held" }, { part: "done" }, { part: "failed" }]

const labeled: ReadonlyArray<Part> = [{ part: "labeled" }]

/** The parts that may have a match. Only failed jobs have an error code. */
const partsOf = ({ errorCode, status }: JobPage): ReadonlyArray<Part> =>
  parts.filter(
    ({ part }) =>
      (status === undefined || partsByStatus[status].includes(part)) && (errorCode === undefined || part === "failed"),
  )

const partsByStatus: Readonly<Record<JobStatus, ReadonlyArray<Part["part"]>>> = {
  queued: ["waiting"],
  processing: ["waiting", "held"],
  done: ["done"],
  failed: ["failed"],
}

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

const summaryOf = ({ kept, matches: _matches, part: _part, place: _place, ...row }: ListRow): JobSummary => ({
  ...row,
  priority: decodePriority(row.priority, row.id),
  metadata: listedMetadata(kept),
})

/** Reads one row more than requested, to know whether another page follows. */
const listJobs = async (session: Session, page: JobPage): Promise<JobList> => {
  const lookAt = Math.max(mostLookedAt, page.limit + 1)
  const [label, ...labels] = page.labels ?? []
  const isLabeled = label !== undefined
  const rows = await session.batch(isLabeled ? labeledBefore : jobsBefore, isLabeled ? labeled : partsOf(page), {
    ...startOf(page),
    from: wholeTime(page.createdFrom ?? 0),
    lookAt,
    limit: page.limit + 1,
    projectId: page.projectId ?? null,
    kind: page.kind ?? null,
    mode: page.mode ?? null,
    status: page.status ?? null,
    keyId: page.keyId ?? null,
    errorCode: page.errorCode ?? null,
    label: label ?? "",
    labels: JSON.stringify(labels),
  })
  const frontier = scannedUpTo(rows, lookAt, page.limit + 1)
  const known = rows.filter((row) => row.matches && (frontier === undefined || !isBefore(frontier, row)))
  const jobs = known.slice(0, page.limit)
  const end = known.length > page.limit ? jobs.at(-1) : frontier
  return { jobs: jobs.map(summaryOf), next: end && cursorOf(end) }
}

/** Lanes stay when their jobs are deleted. */
const allKinds = statement(() =>
  query.selectFrom("lanes").select("kind").distinct().where("id", ">", 0).orderBy("kind"),
)

/** Regardless of owner, for the operator. */
const readJobs = async (session: Session, jobIds: ReadonlyArray<JobId>): Promise<ReadonlyArray<Job | undefined>> => {
  const rows = await session.batch(
    jobsById,
    jobIds.map((id) => ({ id })),
  )
  const jobs = new Map(rows.map((row) => [row.id, jobOf(row)]))
  return jobIds.map((id) => jobs.get(id))
}

export const makePostgresJobDirectory = (db: Database): JobDirectory["Service"] =>
  JobDirectory.of({
    listJobs: (page) => db.read("JobDirectory.listJobs", (session) => listJobs(session, page)),
    countJobs: (question) => db.read("JobDirectory.countJobs", (session) => countJobs(session, question)),
    measureQueue: ({ limit, projectId }) =>
      db.read("JobDirectory.measureQueue", (session) => measureQueue(session, limit, projectId)),
    readJobs: (jobIds) => db.read("JobDirectory.readJobs", (session) => readJobs(session, jobIds)),
    findPlace: (jobId) => db.read("JobDirectory.findPlace", (session) => findPlace(session, jobId)),
    listFinished: (question) => db.read("JobDirectory.listFinished", (session) => listFinished(session, question)),
    listKinds: db.read("JobDirectory.listKinds", async (session) =>
      (await session.all(allKinds, {})).map(({ kind }) => kind),
    ),
    ...directoryVerbs(transactionsOf(db), "queue"),
  })

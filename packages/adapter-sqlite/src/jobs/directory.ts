import * as Effect from "effect/Effect"
import { type Expression, type RawBuilder, sql } from "kysely"
import type { JobMode, JobStatus, KeyId, ProjectId } from "@kiln/core/domain"
import {
  type FinishedJob,
  type JobCount,
  JobDirectory,
  type JobList,
  type JobPage,
  type JobSummary,
} from "@kiln/core/ports"
import { addUpCounts, decodePriority, directoryVerbs, laneNames, listedMetadata, newestFinished } from "@kiln/sql-store"
import { select, type Values } from "../columns.ts"
import type { Database } from "../Database.ts"
import { findPlace, measureQueue } from "./counts.ts"
import { finishedKinds } from "./retention.ts"
import { jobById, jobOf } from "./JobRow.ts"
import { allKinds } from "./lanes.ts"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { transactionsOf } from "../transactionsOf.ts"

// Lists

/** Maximum number of rows that one page reads. A rare match yields short pages, so that other callers are served in between. */
const maxRowsRead = 2_000

/**
 * Jobs from the number `fromSeq` on, and before `beforeSeq`. Jobs are numbered in order of creation, which is that of their creation
 * times, because store time never goes back.
 */
type Range = { readonly fromSeq: number; readonly beforeSeq: number }

const jobsIn = (given: Given<Range>) =>
  query.selectFrom("jobs").where("seq", "<", given.beforeSeq).where("seq", ">=", given.fromSeq).orderBy("seq", "desc")

/** The jobs of a range that have a label. */
const labeledIn = (given: Given<Range & Labels>) =>
  query
    .selectFrom("job_labels")
    .where("label", "=", given.label)
    .where("job_seq", "<", given.beforeSeq)
    .where("job_seq", ">=", given.fromSeq)
    .orderBy("job_seq", "desc")

/** The label that is looked up, and a JSON list of the others. */
type Labels = { readonly label: string; readonly labels: string }

const hasLabels = (jobSeq: RawBuilder<number>, labels: Expression<string>) =>
  sql<boolean>`NOT EXISTS (SELECT 1 FROM json_each(${labels}) AS wanted WHERE NOT EXISTS (
    SELECT 1 FROM kiln_job_labels AS own WHERE own.label = wanted.value AND own.job_seq = ${jobSeq}))`

const furthestLabeled = statement((given: Given<Range & Labels & { readonly rows: number }>) =>
  labeledIn(given)
    .select("job_seq as seq")
    .limit(1)
    .offset(sql<number>`${given.rows} - 1`),
)

/** The last job that a page may read. */
export const furthestJob = statement((given: Given<Range & { readonly rows: number }>) =>
  jobsIn(given)
    .select("seq")
    .limit(1)
    .offset(sql<number>`${given.rows} - 1`),
)

/** The first job from this number on. */
export const nextJob = statement((given: Given<Values<"jobs", "seq">>) =>
  query
    .selectFrom("jobs")
    .select(select("jobs", "seq", "created_at"))
    .where("seq", ">=", given.seq)
    .orderBy("seq")
    .limit(1),
)

const newestJob = statement(() =>
  query.selectFrom("jobs").select("seq").where("seq", ">", 0).orderBy("seq", "desc").limit(1),
)

/** `null` matches everything. */
type Filter = {
  readonly projectId: ProjectId | null
  readonly kind: string | null
  readonly mode: JobMode | null
  readonly status: JobStatus | null
  readonly keyId: KeyId | null
  readonly errorCode: string | null
}

const summaryColumns = [
  ...select(
    "jobs",
    "seq",
    "id",
    "created_at",
    ...laneNames,
    "key_id",
    "priority",
    "kept",
    "error_code",
    "warning_code",
  ),
  ...select("jobs", "status", "held", "claimable_at", "phase_started_at", "attempts", "failures", "lost_workers"),
  ...select("jobs", "retained", "finished_at"),
] as const

const matches = (given: Given<Filter>) =>
  sql<boolean>`(${given.projectId} IS NULL OR project_id = ${given.projectId})
    AND (${given.kind} IS NULL OR kind = ${given.kind})
    AND (${given.mode} IS NULL OR mode = ${given.mode})
    AND (${given.status} IS NULL OR status = ${given.status})
    AND (${given.keyId} IS NULL OR key_id = ${given.keyId})
    AND (${given.errorCode} IS NULL OR error_code = ${given.errorCode})`

export const jobsInRange = statement((given: Given<Range & Filter & { readonly limit: number }>) =>
  jobsIn(given).select(summaryColumns).where(matches(given)).limit(given.limit),
)

/** The cross join reads the labels first. */
const labeledInRange = statement((given: Given<Range & Labels & Filter & { readonly limit: number }>) =>
  labeledIn(given)
    .crossJoin("jobs")
    .select(summaryColumns)
    .whereRef("jobs.seq", "=", "job_labels.job_seq")
    .where(matches(given))
    .where(hasLabels(sql<number>`kiln_job_labels.job_seq`, given.labels))
    .limit(given.limit),
)

const cursorOf = (seq: number): string => `before ${seq}`
const seqOf = (cursor: string): number => {
  const [, seq] = /^before (\d{1,16})$/.exec(cursor) ?? []
  if (seq === undefined) throw new TypeError("invalid cursor")
  return Number(seq)
}

/** Returns the number of the first job that was created at this time or later, by bisection. */
const firstSince = (tx: Transaction, time: number, endSeq: number): number => {
  let [from, to] = [0, endSeq]
  while (from < to) {
    const middle = Math.floor((from + to) / 2)
    const job = tx.get(nextJob, { seq: middle })
    if (job === undefined || job.createdAt >= time) to = middle
    else from = job.seq + 1
  }
  return from
}

const summaryOf = ({ held, kept, seq: _, ...row }: RowOf<typeof jobsInRange>): JobSummary => ({
  ...row,
  held: held === 1,
  metadata: listedMetadata(kept),
  priority: decodePriority(row.priority, row.id),
})

const labelsAsked = ([label, ...labels]: ReadonlyArray<string> = []): Labels | undefined =>
  label === undefined ? undefined : { label, labels: JSON.stringify(labels) }

/** Reads one row more than requested, which tells whether another page follows. */
const listJobs = (tx: Transaction, page: JobPage): JobList => {
  const { after, createdFrom, createdTo, limit } = page
  const endSeq = (tx.get(newestJob, {})?.seq ?? 0) + 1
  const range = {
    fromSeq: createdFrom === undefined ? 0 : firstSince(tx, createdFrom, endSeq),
    beforeSeq: Math.min(
      after === undefined ? endSeq : seqOf(after),
      createdTo === undefined ? endSeq : firstSince(tx, createdTo, endSeq),
    ),
  }
  const labels = labelsAsked(page.labels)
  const rowsRead = Math.max(maxRowsRead, limit)
  const furthest =
    labels === undefined
      ? tx.get(furthestJob, { ...range, rows: rowsRead })
      : tx.get(furthestLabeled, { ...range, ...labels, rows: rowsRead })
  const wanted = {
    ...range,
    ...(furthest && { fromSeq: furthest.seq }),
    projectId: page.projectId ?? null,
    kind: page.kind ?? null,
    mode: page.mode ?? null,
    status: page.status ?? null,
    keyId: page.keyId ?? null,
    errorCode: page.errorCode ?? null,
    limit: limit + 1,
  }
  const rows = labels === undefined ? tx.all(jobsInRange, wanted) : tx.all(labeledInRange, { ...wanted, ...labels })
  const last = rows.length > limit ? rows[limit - 1] : furthest
  return { jobs: rows.slice(0, limit).map(summaryOf), next: last && cursorOf(last.seq) }
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
    .where("jobs.held", "in", [0, 1])
    .whereRef("jobs.lane_id", "=", "lanes.id")
    .where("claimable_at", "is not", null)
    .groupBy(["jobs.kind", "jobs.mode", "state"]),
)

type Finished = {
  readonly projectId: ProjectId | null
  readonly retained: (typeof retentions)[number]
  readonly kind: string
  readonly finishedAfter: number
}

/** The index of finished jobs is ordered by what they retain and by kind, so each pair is a range of its own. */
export const finishedByStatus = statement((given: Given<Finished>) =>
  query
    .selectFrom("jobs")
    .select((of) => ["kind", "mode", "status as state", of.fn.countAll<number>().as("count")])
    .where(sql<boolean>`(${given.projectId} IS NULL OR project_id = ${given.projectId})`)
    .where("retained", "=", given.retained)
    .where("kind", "=", given.kind)
    .where("finished_at", ">", given.finishedAfter)
    .groupBy(["kind", "mode", "state"]),
)

type Part = { readonly afterSeq: number; readonly upToSeq: number }

/** The last job of a part that counts jobs with a label. */
const lastOfPart = statement(
  (given: Given<Pick<Part, "afterSeq"> & Pick<Labels, "label"> & { readonly rows: number }>) =>
    query
      .selectFrom((from) =>
        from
          .selectFrom("job_labels")
          .select("job_seq")
          .where("label", "=", given.label)
          .where("job_seq", ">", given.afterSeq)
          .orderBy("job_seq")
          .limit(given.rows)
          .as("part"),
      )
      .select((of) => [of.fn.max("part.job_seq").as("seq"), of.fn.countAll<number>().as("rows")]),
)

/** Counts the jobs of a part that have these labels, one by one. */
const labeledByStatus = statement((given: Given<Unfinished & Labels & Part & { readonly finishedAfter: number }>) =>
  query
    .selectFrom("job_labels")
    .crossJoin("jobs")
    .select((of) => ["jobs.kind", "jobs.mode", stateOf(given).as("state"), of.fn.countAll<number>().as("count")])
    .where("job_labels.label", "=", given.label)
    .where("job_labels.job_seq", ">", given.afterSeq)
    .where("job_labels.job_seq", "<=", given.upToSeq)
    .whereRef("jobs.seq", "=", "job_labels.job_seq")
    .where(sql<boolean>`(${given.projectId} IS NULL OR project_id = ${given.projectId})`)
    .where(sql<boolean>`(finished_at IS NULL OR finished_at > ${given.finishedAfter})`)
    .where(hasLabels(sql<number>`kiln_job_labels.job_seq`, given.labels))
    .groupBy(["jobs.kind", "jobs.mode", "state"]),
)

const retentions = ["kept", "expired", "deleted"] as const

/** The end of one range of the index. */
export const lastFinished = statement((given: Given<Omit<Finished, "projectId"> & { readonly limit: number }>) =>
  query
    .selectFrom("jobs")
    .select(select("jobs", "id", "project_id", "kind", "mode", "status", "error_code", "created_at", "finished_at"))
    .select(select("jobs", "waited_ms", "ran_ms"))
    .where("retained", "=", given.retained)
    .where("kind", "=", given.kind)
    .where("finished_at", ">", given.finishedAfter)
    .orderBy("finished_at", "desc")
    .limit(given.limit),
)

const listFinished = (
  tx: Transaction,
  { limit, withinMs }: Parameters<JobDirectory["Service"]["listFinished"]>[0],
): ReadonlyArray<FinishedJob> =>
  newestFinished(
    retentions.flatMap((retained) =>
      finishedKinds(tx, retained).flatMap((kind) => {
        const ended = tx.all(lastFinished, { retained, kind, finishedAfter: tx.now - withinMs, limit })
        return ended as ReadonlyArray<FinishedJob>
      }),
    ),
    limit,
  )

type Question = Parameters<JobDirectory["Service"]["countJobs"]>[0]

const countAll = (tx: Transaction, question: Question): ReadonlyArray<JobCount> => {
  const { now } = tx
  const projectId = question.projectId ?? null
  const finishedAfter = now - question.finishedWithinMs
  const rows = [
    ...(question.unfinished === false ? [] : tx.all(unfinishedByStatus, { projectId, now })),
    ...retentions.flatMap((retained) =>
      finishedKinds(tx, retained).flatMap((kind) =>
        tx.all(finishedByStatus, { projectId, retained, kind, finishedAfter }),
      ),
    ),
  ]
  return addUpCounts(rows.map(countOf))
}

const isAsked = ({ unfinished }: Question, status: JobCount["status"]): boolean =>
  unfinished !== false || status === "done" || status === "failed"

const countOf = ({ state: status, ...group }: RowOf<typeof labeledByStatus>): JobCount => ({ ...group, status })

/** Number of jobs in a part, a few milliseconds of work. */
const rowsOfPart = 1_000

/**
 * Counts part by part, because a thread reads a million jobs for seconds. Each job is in one part, so it is counted once, as it is when
 * its part is read.
 */
const countLabeled = Effect.fnUntraced(function* (db: Database, question: Question, labels: Labels) {
  const counts: Array<JobCount> = []
  let asOf: number | undefined
  for (let afterSeq = 0; ;) {
    const part = yield* db.read("JobDirectory.countJobs", (tx) => {
      const now = (asOf ??= tx.now)
      const { rows = 0, seq } = tx.get(lastOfPart, { label: labels.label, afterSeq, rows: rowsOfPart }) ?? {}
      if (seq == null) return { rows, upToSeq: afterSeq, found: [] }
      const finishedAfter = now - question.finishedWithinMs
      const range = { afterSeq, upToSeq: seq }
      const found = tx.all(labeledByStatus, {
        projectId: question.projectId ?? null,
        now,
        finishedAfter,
        ...labels,
        ...range,
      })
      return { rows, upToSeq: seq, found: found.filter(({ state }) => isAsked(question, state)) }
    })
    counts.push(...part.found.map(countOf))
    if (part.rows < rowsOfPart) return addUpCounts(counts)
    afterSeq = part.upToSeq
    yield* Effect.yieldNow
  }
})

const countJobs = (db: Database, question: Question) => {
  const labels = labelsAsked(question.labels)
  return labels === undefined
    ? db.read("JobDirectory.countJobs", (tx) => countAll(tx, question))
    : countLabeled(db, question, labels)
}

export const makeSqliteJobDirectory = (db: Database): JobDirectory["Service"] =>
  JobDirectory.of({
    listJobs: (page) => db.read("JobDirectory.listJobs", (tx) => listJobs(tx, page)),
    countJobs: (question) => countJobs(db, question),
    measureQueue: ({ limit, projectId }) =>
      db.read("JobDirectory.measureQueue", (tx) => measureQueue(tx, limit, projectId)),
    readJobs: (jobIds) =>
      db.read("JobDirectory.readJobs", (tx) =>
        jobIds.map((id) => {
          const row = tx.get(jobById, { id })
          return row && jobOf(tx, row)
        }),
      ),
    findPlace: (jobId) => db.read("JobDirectory.findPlace", (tx) => findPlace(tx, jobId)),
    listFinished: (question) => db.read("JobDirectory.listFinished", (tx) => listFinished(tx, question)),
    listKinds: db.read("JobDirectory.listKinds", (tx) => tx.all(allKinds, {}).map(({ kind }) => kind)),
    ...directoryVerbs(transactionsOf(db), "jobs"),
  })

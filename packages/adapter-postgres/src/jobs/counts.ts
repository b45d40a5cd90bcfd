import { type RawBuilder, sql } from "kysely"
import { addUpCounts, newestFinished } from "@kiln/sql-store"
import {
  type JobId,
  type JobMode,
  maxAhead,
  type ProjectId,
  type QueuePlace,
  type RetainedData,
} from "@kiln/core/domain"
import { ranks } from "@kiln/core/rules"
import {
  type DepthState,
  type FinishedJob,
  type JobCount,
  type JobDirectory,
  type QueueDepth,
  queueDepths,
} from "@kiln/core/ports"
import {
  ago,
  batchStatement,
  type Given,
  integer,
  plenty,
  query,
  statement,
  storeTime,
  text,
  wholeAge,
} from "../Statement.ts"
import type { Session } from "../connection/Session.ts"
import { ranksOf } from "../migrations/initial/ranks.ts"
import { retainedPart } from "./jobRow.ts"
import { finishedKinds } from "./retention.ts"

/**
 * Whether a job has all labels of a JSON list. An empty list is compared first: where the table of labels was never analyzed, each
 * look at it may read it whole.
 */
export const hasLabels = (jobSeq: RawBuilder<number>, labels: RawBuilder<string>) =>
  sql<boolean>`(${labels}::text = '[]' or not exists (select from json_array_elements_text(${labels}::json) as wanted(label) where not exists (
    select from "kiln".job_labels as own where own.job_seq = ${jobSeq} and own.label = wanted.label)))`

type Question = { projectId: ProjectId | null; finishedWithinMs: number }

const delayedOr = (other: RawBuilder<unknown>) =>
  sql<JobCount["status"]>`case when queue.status = 'queued' and queue.claimable_at > ${storeTime}
    then 'delayed' else ${other} end`.as("status")

const statusInQueue = delayedOr(sql`queue.status`)

const unfinished = query
  .selectFrom("lanes")
  .innerJoin("queue", "queue.lane_id", "lanes.id")
  .select((select) => ["lanes.kind", "lanes.mode", statusInQueue, select.fn.countAll<number>().as("count")])
  .groupBy([sql.ref("lanes.kind"), sql.ref("lanes.mode"), sql`3`])

/** The same of one project. Lane by lane: OFFSET 0, or the planner may hash the whole queue for the lanes of one project. */
const unfinishedOf = (projectId: RawBuilder<ProjectId | null>) =>
  query
    .selectFrom("lanes")
    .innerJoinLateral(
      (from) =>
        from
          .selectFrom("queue")
          .select(["queue.status", "queue.claimable_at"])
          .whereRef("queue.lane_id", "=", "lanes.id")
          .offset(0)
          .as("queue"),
      (join) => join.onTrue(),
    )
    .select((select) => ["lanes.kind", "lanes.mode", statusInQueue, select.fn.countAll<number>().as("count")])
    .where(sql<boolean>`lanes.project_id = ${projectId}`)
    .groupBy([sql.ref("lanes.kind"), sql.ref("lanes.mode"), sql`3`])

/** Counts recently finished jobs in the index, which separates kept, expired and deleted data, and kinds. */
const countOf = (lanes?: (given: Given<Question>) => typeof unfinished) =>
  batchStatement({ retained: text<RetainedData>() }, (item, given: Given<Question>) => {
    const finished = query
      .selectFrom(item)
      .innerJoinLateral(finishedKinds(sql<RetainedData>`item.retained`).as("kinds"), (join) => join.onTrue())
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
            .where(sql<boolean>`results.kind = kinds.kind`)
            .where("results.finished_at", ">", ago(given.finishedWithinMs))
            .where(sql<boolean>`(${given.projectId}::text is null or results.project_id = ${given.projectId})`)
            .groupBy(["results.kind", "results.mode", "results.status"])
            .as("finished"),
        (join) => join.onTrue(),
      )
      .select(["finished.kind", "finished.mode", "finished.status", "finished.count"])
    return lanes === undefined ? finished : finished.unionAll(lanes(given))
  })

/** Counts the whole queue, lane by lane. */
export const countAll = countOf(() => unfinished)
export const countFinished = countOf()
export const countOfProject = countOf((given) => unfinishedOf(given.projectId))

/** Counts the jobs that have a label and all labels of a list, one by one. */
const countLabeled = statement((given: Given<Question & { label: string; labels: string }>) =>
  query
    .selectFrom("job_labels")
    .innerJoin("jobs", "jobs.seq", "job_labels.job_seq")
    .leftJoin("queue", "queue.id", "jobs.id")
    .leftJoin("results", "results.job_seq", "jobs.seq")
    .select((select) => [
      "jobs.kind",
      "jobs.mode",
      delayedOr(sql`coalesce(queue.status, results.status)`),
      select.fn.countAll<number>().as("count"),
    ])
    .where("job_labels.label", "=", given.label)
    .where(sql<boolean>`(results.finished_at is null or results.finished_at > ${ago(given.finishedWithinMs)})`)
    .where(sql<boolean>`(${given.projectId}::text is null or jobs.project_id = ${given.projectId})`)
    .where(hasLabels(sql<number>`job_labels.job_seq`, given.labels))
    .groupBy(["jobs.kind", "jobs.mode", sql`3`]),
)

const everything: ReadonlyArray<{ retained: RetainedData }> = [
  { retained: "kept" },
  { retained: "expired" },
  { retained: "deleted" },
]

const statementFor = (projectId: ProjectId | null, includesUnfinished: boolean) => {
  if (!includesUnfinished) return countFinished
  return projectId === null ? countAll : countOfProject
}

/** Counts in one statement, so a job that ends meanwhile is counted once. */
export const countJobs = async (
  session: Session,
  question: Parameters<JobDirectory["Service"]["countJobs"]>[0],
): Promise<ReadonlyArray<JobCount>> => {
  const {
    finishedWithinMs: withinMs,
    labels: [label, ...labels] = [],
    projectId = null,
    unfinished: isAll = true,
  } = question
  const finishedWithinMs = wholeAge(withinMs)
  const counts =
    label === undefined
      ? await session.batch(statementFor(projectId, isAll), everything, { projectId, finishedWithinMs })
      : await session.all(countLabeled, { projectId, finishedWithinMs, label, labels: JSON.stringify(labels) })
  return addUpCounts(counts.filter(({ status }) => isAll || status === "done" || status === "failed"))
}

type LastQuestion = { withinMs: number; limit: number }

/** The newest ends of each kind, from the index of finished jobs. */
const lastFinished = batchStatement({ retained: text<RetainedData>() }, (item, given: Given<LastQuestion>) =>
  query
    .selectFrom(item)
    .innerJoinLateral(finishedKinds(sql<RetainedData>`item.retained`).as("kinds"), (join) => join.onTrue())
    .innerJoinLateral(
      () =>
        query
          .selectFrom("results")
          .innerJoin(plenty, (join) => join.onTrue())
          .select(["results.job_id as id", "results.project_id as projectId", "results.kind", "results.mode"])
          .select(["results.error_code as errorCode", "results.created_at as createdAt"])
          .select(["results.waited_ms as waitedMs", "results.ran_ms as ranMs", "results.finished_at as finishedAt"])
          .select(sql<FinishedJob["status"]>`results.status`.as("status"))
          .where(sql<boolean>`${retainedPart} = item.retained`)
          .where(sql<boolean>`results.kind = kinds.kind`)
          .where("results.finished_at", ">", ago(given.withinMs))
          .orderBy("results.finished_at", "desc")
          .orderBy("results.job_seq", "desc")
          .limit(given.limit)
          .as("found"),
      (join) => join.onTrue(),
    )
    .selectAll("found"),
)

export const listFinished = async (
  session: Session,
  { limit, withinMs }: Parameters<JobDirectory["Service"]["listFinished"]>[0],
): Promise<ReadonlyArray<FinishedJob>> => {
  const rows = await session.batch(lastFinished, everything, { withinMs: wholeAge(withinMs), limit })
  return newestFinished(rows, limit)
}

type Of = { projectId: ProjectId | null }

/** `null` means all projects. */
const ofProject = (projectId: RawBuilder<ProjectId | null>) =>
  sql<boolean>`(${projectId}::text is null or lanes.project_id = ${projectId})`

/** Counts jobs lane by lane, up to the limit. Also those that are not claimable again, such as held ones near their deadline. */
export const depthByKind = statement((given: Given<Of & { limit: number }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("lanes")
        .innerJoin("queue", "queue.lane_id", "lanes.id")
        .select([
          "lanes.kind",
          "lanes.mode",
          sql<DepthState>`case when queue.claimable_at <= ${storeTime} then 'ready' when queue.held then 'running'
            when queue.status = 'queued' then 'delayed' else 'retrying' end`.as("state"),
        ])
        .where(ofProject(given.projectId))
        .limit(given.limit)
        .as("counted"),
    )
    .select((of) => ["counted.kind", "counted.mode", "counted.state", of.fn.countAll<number>().as("count")])
    .groupBy(["counted.kind", "counted.mode", "counted.state"]),
)

/** The ranks of a lane. The limit, which is not reached, tells the planner that there are not thousands. */
const everyRank = sql<{
  rank: number
}>`(select listed.rank from ${sql.raw(ranksOf("lanes.id", "0"))} as listed limit ${sql.lit(ranks.length)})`

/** For how long the first job of each kind and mode is ready: one look into the queue's index for each lane and rank. */
export const oldestReady = statement((given: Given<Of>) =>
  query
    .selectFrom("lanes")
    .innerJoinLateral(
      (from) =>
        from
          .selectFrom(everyRank.as<"ranks">(sql`ranks`))
          .innerJoinLateral(
            (inner) =>
              inner
                .selectFrom("queue")
                .select("queue.claimable_at")
                .whereRef("queue.lane_id", "=", "lanes.id")
                .where(sql<boolean>`queue.priority = ranks.rank`)
                .orderBy("queue.claimable_at")
                .limit(1)
                .as("place"),
            (join) => join.onTrue(),
          )
          .select((of) => of.fn.min<number>("place.claimable_at").as("at"))
          .as("first"),
      (join) => join.onTrue(),
    )
    // All of them, by their key.
    .where("lanes.id", ">", 0)
    .where(ofProject(given.projectId))
    .where("first.at", "<=", storeTime)
    .select(["lanes.kind", "lanes.mode", sql<number>`${storeTime} - min(${sql.ref("first.at")})`.as("readyMs")])
    .groupBy(["lanes.kind", "lanes.mode"]),
)

/** Measures the queue by kind and mode: see `JobDirectory.measureQueue`. */
export const measureQueue = async (
  session: Session,
  limit: number,
  projectId: ProjectId | null = null,
): Promise<ReadonlyArray<QueueDepth>> => {
  const [counts, oldest] = await Promise.all([
    session.all(depthByKind, { limit, projectId }),
    session.all(oldestReady, { projectId }),
  ])
  return queueDepths(counts, oldest)
}

/** More jobs than all workers of an installation hold. */
const mostHeld = 200_000

/**
 * Jobs under a lease, read from the index that contains only held jobs. An order that only this index has, and a limit far below the
 * million rows for each that the planner expects: it takes half of the queue for held, or whatever was held when the table was analyzed, and
 * would read all of it (1.1 ms in a queue of a few hundred jobs that workers update, instead of 0.04).
 */
const heldNow = query
  .selectFrom("queue")
  .innerJoin(plenty, (join) => join.onTrue())
  .innerJoin(sql<{}>`generate_series(1, (select 1))`.as<"more">(sql`more`), (join) => join.onTrue())
  .select(["queue.mode", "queue.kind", "queue.project_id", "queue.claimable_at"])
  .where("queue.held", "=", true)
  .where("queue.claimable_at", ">", storeTime)
  .orderBy("queue.claimable_at")
  .limit(sql.lit(mostHeld))

const placeOfJob = statement((given: Given<{ id: JobId }>) =>
  query
    .selectFrom("queue")
    .select([
      "queue.lane_id as laneId",
      "queue.priority",
      "queue.claimable_at as claimableAt",
      "queue.project_id as projectId",
      "queue.kind",
      "queue.mode",
      sql<number>`${storeTime}`.as("now"),
    ])
    .where("queue.id", "=", given.id),
)

/** Counts the jobs of a lane that come before a place of each rank, up to a limit, in the order of the index. */
const jobsBeforePlace = batchStatement(
  { priority: integer(), claimableAt: integer(), id: text() },
  (item, given: Given<{ laneId: number; limit: number }>) =>
    query
      .selectFrom(item)
      .innerJoinLateral(
        (from) =>
          from
            .selectFrom((inner) =>
              inner
                .selectFrom("queue")
                .select("queue.lane_id")
                .where("queue.lane_id", "=", given.laneId)
                .where(sql<boolean>`queue.priority = item.priority`)
                .where(sql<boolean>`(queue.claimable_at, queue.id) < (item."claimableAt", item.id)`)
                .where("queue.held", "=", false)
                .limit(given.limit)
                .as("before"),
            )
            .select((of) => of.fn.countAll<number>().as("count"))
            .as("counted"),
        (join) => join.onTrue(),
      )
      .select("counted.count"),
)

/** Counts the jobs of a mode under a lease, of which a fleet holds few. */
const runningOfMode = statement((given: Given<{ mode: JobMode; kind: string; projectId: ProjectId }>) =>
  query
    .selectFrom(heldNow.as("held"))
    .select((of) => [
      sql<number>`count(*) filter (where held.kind = ${given.kind})`.as("kind"),
      sql<number>`count(*) filter (where held.project_id = ${given.projectId})`.as("project"),
      of.fn.countAll<number>().as("all"),
    ])
    .where("held.mode", "=", given.mode),
)

/** Finds the place of an unfinished job: see `JobDirectory.findPlace`. */
export const findPlace = async (session: Session, id: JobId): Promise<QueuePlace | undefined> => {
  const job = await session.get(placeOfJob, { id })
  if (job === undefined) return undefined
  const { claimableAt, kind, laneId, mode, now, priority, projectId } = job
  const items = ranks
    .filter((rank) => rank >= priority)
    .map((rank) =>
      // No id is before the empty one, so jobs that become claimable after now are left out.
      rank === priority && claimableAt <= now
        ? { priority: rank, claimableAt, id }
        : { priority: rank, claimableAt: now + 1, id: "" },
    )
  const [counts, running] = await Promise.all([
    session.batch(jobsBeforePlace, items, { laneId, limit: maxAhead }),
    session.get(runningOfMode, { mode, kind, projectId }),
  ])
  return {
    now,
    ahead: Math.min(
      maxAhead,
      counts.reduce((sum, { count }) => sum + count, 0),
    ),
    running: running ?? { kind: 0, project: 0, all: 0 },
  }
}

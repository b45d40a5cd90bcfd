import { type RawBuilder, sql } from "kysely"
import type { ProjectId, RetainedData } from "@kiln/core/domain"
import type { FinishedJob, JobCount, JobDirectory } from "@kiln/core/ports"
import { finishedKinds } from "./finishedKinds.ts"
import { retainedPart } from "./jobRow.ts"
import type { Session } from "../connection/Session.ts"
import { ago, batchStatement, type Given, plenty, query, statement, storeTime, text, wholeAge } from "../Statement.ts"

/** Whether a job has all labels of a JSON list. */
export const hasLabels = (jobSeq: RawBuilder<number>, labels: RawBuilder<string>) =>
  sql<boolean>`not exists (select from json_array_elements_text(${labels}::json) as wanted(label) where not exists (
    select from "kiln".job_labels as own where own.job_seq = ${jobSeq} and own.label = wanted.label))`

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
    .select((select) => [
      "lanes.kind",
      "lanes.mode",
      sql<JobCount["status"]>`case when queue.status = 'queued' and queue.claimable_at > ${storeTime}
        then 'delayed' else queue.status end`.as("status"),
      select.fn.countAll<number>().as("count"),
    ])
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
const countFinished = countOf()
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
      sql<JobCount["status"]>`case when queue.status = 'queued' and queue.claimable_at > ${storeTime}
        then 'delayed' else coalesce(queue.status, results.status) end`.as("status"),
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

const nameOf = ({ kind, mode, status }: JobCount): string => `${kind} ${mode} ${status}`

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
  // The three parts of the index are added up.
  const sums = new Map<string, JobCount>()
  for (const part of counts.filter(({ status }) => isAll || status === "done" || status === "failed"))
    sums.set(nameOf(part), { ...part, count: part.count + (sums.get(nameOf(part))?.count ?? 0) })
  return [...sums.keys()].toSorted().flatMap((name) => sums.get(name) ?? [])
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
  return rows.toSorted((one, other) => other.finishedAt - one.finishedAt).slice(0, limit)
}

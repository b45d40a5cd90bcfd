import { sql } from "kysely"
import type { ProjectId, RetainedData } from "@kiln/core/domain"
import type { JobCount } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { ago, batchStatement, type Given, query, storeTime, wholeAge } from "../Statement.ts"

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

/** Of the index of finished jobs, which has data that is kept, expired and deleted apart, what ended lately. */
const countOf = (lanes: (given: Given<Question>) => typeof unfinished) =>
  batchStatement<{ retained: RetainedData }, Question, JobCount>({ retained: "text" }, (item, given) =>
    query
      .selectFrom(item)
      .innerJoinLateral(
        () =>
          query
            .selectFrom("jobs")
            .select((select) => [
              "jobs.kind",
              "jobs.mode",
              sql<JobCount["status"]>`jobs.status`.as("status"),
              select.fn.countAll<number>().as("count"),
            ])
            .where(sql<boolean>`jobs.retained = item.retained`)
            .where("jobs.finished_at", ">", ago(given.finishedWithinMs))
            .where(sql<boolean>`(${given.projectId}::text is null or jobs.project_id = ${given.projectId})`)
            .groupBy(["jobs.kind", "jobs.mode", "jobs.status"])
            .as("finished"),
        (join) => join.onTrue(),
      )
      .select(["finished.kind", "finished.mode", "finished.status", "finished.count"])
      .unionAll(lanes(given)),
  )

/** The queue is counted lane by lane: all of it. */
export const countAll = countOf(() => unfinished)
export const countOfProject = countOf((given) => unfinished.where(sql<boolean>`lanes.project_id = ${given.projectId}`))

const everything: ReadonlyArray<{ retained: RetainedData }> = [
  { retained: "kept" },
  { retained: "expired" },
  { retained: "deleted" },
]

const nameOf = ({ kind, mode, status }: JobCount): string => `${kind} ${mode} ${status}`

/** In one statement, and so of one moment: no job is counted twice because it ends meanwhile. */
export const countJobs = async (
  session: Session,
  question: { readonly finishedWithinMs: number; readonly projectId?: ProjectId | undefined },
): Promise<ReadonlyArray<JobCount>> => {
  const { finishedWithinMs, projectId = null } = question
  const counts = await session.batch(projectId === null ? countAll : countOfProject, everything, {
    projectId,
    finishedWithinMs: wholeAge(finishedWithinMs),
  })
  // Data that is kept, expired and deleted stands apart, and is all the same here.
  const sums = new Map<string, JobCount>()
  for (const part of counts)
    sums.set(nameOf(part), { ...part, count: part.count + (sums.get(nameOf(part))?.count ?? 0) })
  return [...sums.keys()].toSorted().flatMap((name) => sums.get(name) ?? [])
}

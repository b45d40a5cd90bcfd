import { sql } from "kysely"
import type { ProjectId } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import { briefLockTimeoutMs, type Session } from "../connection/Session.ts"
import { batchStatement, integer, query, text, type Given } from "../Statement.ts"

/** Counts a project's entries in the queue, lane by lane in the index that claims use, and no further than the cap. */
const unfinishedJobs = batchStatement({ projectId: text<ProjectId>(), cap: integer() }, (item) =>
  query.selectFrom(item).select((select) => [
    "item.projectId",
    select
      .selectFrom((from) =>
        from
          .selectFrom("lanes")
          // A limit of its own, or the planner may hash the whole queue for the lanes of one project.
          .innerJoinLateral(
            (inner) =>
              inner
                .selectFrom("queue")
                .select("queue.lane_id")
                .whereRef("queue.lane_id", "=", "lanes.id")
                .limit((limit) => limit.ref("item.cap"))
                .as("ofLane"),
            (join) => join.onTrue(),
          )
          .select("ofLane.lane_id")
          .whereRef("lanes.project_id", "=", "item.projectId")
          .limit((limit) => limit.ref("item.cap"))
          .as("unfinished"),
      )
      .select((counted) => counted.fn.countAll<number>().as("count"))
      .$asScalar()
      .$notNull()
      .as("count"),
  ]),
)

/**
 * Lets one transaction at a time count and add for a project. Locks in the order of the ids to avoid deadlocks. The lock is held
 * only briefly, so a batch may wait for it as long as the session's lock timeout. A single item waits briefly and is retried,
 * which frees its connection meanwhile.
 */
const oneAtATime = batchStatement(
  { projectId: text<ProjectId>() },
  (item, given: Given<{ patient: string; brief: string }>) =>
    query
      .selectFrom((from) =>
        from.selectFrom(item).select("item.projectId").orderBy("item.projectId").offset(0).as("project"),
      )
      .select([
        sql<string>`set_config('lock_timeout', ${given.patient}, true)`.as("patient"),
        sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".queue ' || "project"."projectId", 0))`.as(
          "lock",
        ),
        sql<string>`set_config('lock_timeout', ${given.brief}, true)`.as("brief"),
      ]),
)

const cappedProjects = (items: ReadonlyArray<NewJob>) => {
  const capped = Map.groupBy(
    items.filter(({ queueCap }) => queueCap > 0),
    ({ projectId }) => projectId,
  )
  return [...capped].map(([projectId, jobs]) => ({
    projectId,
    cap: Math.max(...jobs.map(({ queueCap }) => queueCap)),
  }))
}

/** Locks the projects that have a cap; otherwise concurrent processes could exceed it together. */
export const oneAtATimePerProject = async (session: Session, items: ReadonlyArray<NewJob>): Promise<void> => {
  const brief = String(briefLockTimeoutMs(session))
  await session.batch(oneAtATime, cappedProjects(items), {
    patient: items.length > 1 ? String(session.lockTimeoutMs) : brief,
    brief,
  })
}

/** Counts the unfinished jobs of these items' projects. */
export const countUnfinished = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
): Promise<Map<ProjectId, number>> => {
  const counted = await session.batch(unfinishedJobs, cappedProjects(items))
  return new Map(counted.map(({ count, projectId }) => [projectId, count]))
}

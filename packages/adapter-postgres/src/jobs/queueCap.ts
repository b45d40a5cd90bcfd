import { sql } from "kysely"
import type { ProjectId } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import { briefLockTimeoutMs, type Session } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

/** A project's entries in the queue are its unfinished jobs. They are counted lane by lane in the index that claims use, and no further than the cap. */
export const unfinishedJobs = batchStatement<
  { projectId: ProjectId; cap: number },
  {},
  { readonly projectId: ProjectId; readonly count: number }
>({ projectId: "text", cap: "bigint" }, (item) =>
  query.selectFrom(item).select((select) => [
    "item.projectId",
    select
      .selectFrom((from) =>
        from
          .selectFrom("lanes")
          .innerJoin("queue", "queue.lane_id", "lanes.id")
          .select("queue.lane_id")
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
 * One transaction at a time counts and adds for a project. Ends with the transaction; in the order of the ids, so that no two
 * wait for each other. Who waits here stands in a line that moves, as long as those ahead wait for nothing long themselves:
 * so a batch, which would be taken apart, waits as long as any session does. One item comes again, and keeps no connection meanwhile.
 */
const oneAtATime = batchStatement<
  { projectId: ProjectId },
  { patient: string; brief: string },
  { readonly patient: string; readonly brief: string }
>({ projectId: "text" }, (item, given) =>
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

/** One process counts and adds at a time for a project, or several that accept jobs at the same moment would pass the cap together. */
export const oneAtATimePerProject = async (session: Session, items: ReadonlyArray<NewJob>): Promise<void> => {
  const brief = String(briefLockTimeoutMs(session))
  await session.batch(oneAtATime, cappedProjects(items), {
    patient: items.length > 1 ? String(session.lockTimeoutMs) : brief,
    brief,
  })
}

/** How many unfinished jobs the projects of these items have. */
export const countUnfinished = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
): Promise<Map<ProjectId, number>> => {
  const counted = await session.batch(unfinishedJobs, cappedProjects(items), {})
  return new Map(counted.map(({ count, projectId }) => [projectId, count]))
}

import { sql } from "kysely"
import type { ProjectId } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
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

/** One transaction at a time counts and adds for a project. Ends with the transaction; in the order of the ids, so that no two wait for each other. */
const oneAtATime = batchStatement<{ projectId: ProjectId }, {}, unknown>({ projectId: "text" }, (item) =>
  query
    .selectFrom((from) =>
      from.selectFrom(item).select("item.projectId").orderBy("item.projectId").offset(0).as("project"),
    )
    .select(
      sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".queue ' || "project"."projectId", 0))`.as(
        "lock",
      ),
    ),
)

/** Room beyond which other processes' jobs under way cannot matter: this many batches as large as this one, and then some. */
const otherBatches = 8
const otherJobs = 32

/**
 * How many unfinished jobs the projects of these items have. Near the cap one process counts at a time, so that processes
 * that accept jobs at the same moment do not pass it together; far from it they need not wait for each other.
 */
export const countUnfinished = async (
  session: Session,
  items: ReadonlyArray<NewJob>,
): Promise<{ readonly counts: Map<ProjectId, number>; readonly waited: boolean }> => {
  const capped = Map.groupBy(
    items.filter(({ queueCap }) => queueCap > 0),
    ({ projectId }) => projectId,
  )
  const projects = [...capped].map(([projectId, jobs]) => ({
    projectId,
    jobs: jobs.length,
    cap: Math.max(...jobs.map(({ queueCap }) => queueCap)),
  }))
  const counts = new Map((await session.batch(unfinishedJobs, projects, {})).map((row) => [row.projectId, row.count]))
  const near = projects.filter(
    ({ cap, jobs, projectId }) => (counts.get(projectId) ?? 0) + (otherBatches + 1) * jobs + otherJobs > cap,
  )
  if (near.length === 0) return { counts, waited: false }
  await session.batch(oneAtATime, near, {})
  for (const { count, projectId } of await session.batch(unfinishedJobs, near, {})) counts.set(projectId, count)
  return { counts, waited: true }
}

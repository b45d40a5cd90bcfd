import { sql } from "kysely"
import { type JobId, type JobMode, maxAhead, type ProjectId, type QueuePlace, ranks } from "@kiln/core/domain"
import type { Session } from "../connection/Session.ts"
import { batchStatement, type Given, integer, plenty, query, statement, storeTime, text } from "../Statement.ts"

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

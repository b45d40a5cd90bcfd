import { type RawBuilder, sql } from "kysely"
import { type ProjectId, ranks } from "@kiln/core/domain"
import { type DepthState, type QueueDepth, queueDepths } from "@kiln/core/ports"
import { ranksOf } from "../migrations/initial/ranks.ts"
import type { Session } from "../connection/Session.ts"
import { type Given, query, statement, storeTime } from "../Statement.ts"

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

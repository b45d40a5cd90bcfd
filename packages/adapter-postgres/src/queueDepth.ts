import { sql } from "kysely"
import { type QueueDepth, queueDepths } from "@kiln/core/ports"
import { ranksOf } from "./migrations/initial/ranks.ts"
import type { Session } from "./Session.ts"
import { type Given, query, statement, storeTime } from "./Statement.ts"

/** Counts jobs lane by lane, up to the limit. Also those that are not claimable again, such as held ones near their deadline. */
export const depthByKind = statement((given: Given<{ limit: number }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("lanes")
        .innerJoin("queue", "queue.lane_id", "lanes.id")
        .select([
          "lanes.kind",
          "lanes.mode",
          sql<"ready" | "delayed" | "running">`case when queue.claimable_at <= ${storeTime} then 'ready'
            when queue.held then 'running' else 'delayed' end`.as("state"),
        ])
        .limit(given.limit)
        .as("counted"),
    )
    .select((of) => ["counted.kind", "counted.mode", "counted.state", of.fn.countAll<number>().as("count")])
    .groupBy(["counted.kind", "counted.mode", "counted.state"]),
)

/** For how long the first job of each kind and mode is ready: one look into the queue's index for each lane and rank. */
export const oldestReady = statement(() =>
  query
    .selectFrom("lanes")
    .innerJoinLateral(
      (from) =>
        from
          .selectFrom(sql<{ rank: number }>`${sql.raw(ranksOf("lanes.id", "0"))}`.as<"ranks">(sql`ranks`))
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
    .where("first.at", "<=", storeTime)
    .select(["lanes.kind", "lanes.mode", sql<number>`${storeTime} - min(${sql.ref("first.at")})`.as("readyMs")])
    .groupBy(["lanes.kind", "lanes.mode"]),
)

/** Measures the queue by kind and mode: see `JobDirectory.measureQueue`. */
export const measureQueue = async (session: Session, limit: number): Promise<ReadonlyArray<QueueDepth>> => {
  const [counts, oldest] = await Promise.all([session.all(depthByKind, { limit }), session.all(oldestReady, {})])
  return queueDepths(counts, oldest)
}

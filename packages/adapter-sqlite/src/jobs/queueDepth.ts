import { sql } from "kysely"
import { type ProjectId, ranks } from "@kiln/core/domain"
import { type DepthState, type QueueDepth, queueDepths } from "@kiln/core/ports"
import { bitOf } from "./lanes.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

type Limits = { readonly now: number; readonly limit: number }

const stateAt = (now: Given<Limits>["now"]) =>
  sql<DepthState>`CASE WHEN claimable_at <= ${now} THEN 'ready' WHEN held = 1 THEN 'running'
    WHEN status = 'queued' THEN 'delayed' ELSE 'retrying' END`

/** Reads the index of ready jobs up to the limit, of jobs that are not ready also their rows, and then the lanes of what it found. */
export const depthByLane = statement((given: Given<Limits>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("jobs")
        .select(["lane_id", stateAt(given.now).as("state")])
        .where("held", "in", [0, 1])
        .where("claimable_at", "is not", null)
        .limit(given.limit)
        .as("counted"),
    )
    .innerJoin("lanes", "lanes.id", "counted.lane_id")
    .select((of) => ["lanes.kind", "lanes.mode", "counted.state", of.fn.countAll<number>().as("count")])
    .groupBy(["lanes.kind", "lanes.mode", "counted.state"]),
)

/** The same for one project, lane by lane. */
export const depthOfProject = statement((given: Given<Limits & { readonly projectId: ProjectId }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("lanes")
        .crossJoin("jobs")
        .select(["lanes.kind", "lanes.mode", stateAt(given.now).as("state")])
        .where("lanes.project_id", "=", given.projectId)
        .where("jobs.held", "in", [0, 1])
        .whereRef("jobs.lane_id", "=", "lanes.id")
        .where("claimable_at", "is not", null)
        .limit(given.limit)
        .as("counted"),
    )
    .select((of) => ["counted.kind", "counted.mode", "counted.state", of.fn.countAll<number>().as("count")])
    .groupBy(["counted.kind", "counted.mode", "counted.state"]),
)

/** The first job of a lane with this rank, which is one look into the index of ready jobs, or none if the lane never had the rank. */
const firstOf = (held: 0 | 1, rank: number) => sql<
  number | null
>`CASE WHEN ranks & ${sql.lit(bitOf(rank))} THEN (SELECT claimable_at FROM ${sql.table("jobs")}
  WHERE held = ${sql.lit(held)} AND lane_id = ${sql.ref("lanes.id")} AND priority = ${sql.lit(rank)} AND claimable_at IS NOT NULL
  ORDER BY claimable_at LIMIT 1) END`

const firsts = ranks.flatMap((rank) => [firstOf(0, rank), firstOf(1, rank)])

/** The time since which a job of each kind and mode is ready; a time in the future where none is. `null` means all projects. */
export const firstClaimable = statement((given: Given<{ readonly projectId: ProjectId | null }>) =>
  query
    .selectFrom("lanes")
    .select(["lanes.kind", "lanes.mode"])
    .select(sql<number>`min(min(${sql.join(firsts.map((first) => sql`ifnull(${first}, 9e15)`))}))`.as("first"))
    .where("lanes.next_at", "is not", null)
    .where(sql<boolean>`(${given.projectId} IS NULL OR ${sql.ref("lanes.project_id")} = ${given.projectId})`)
    .groupBy(["lanes.kind", "lanes.mode"]),
)

/** Measures the queue by kind and mode: see `JobDirectory.measureQueue`. */
export const measureQueue = (tx: Transaction, limit: number, projectId?: ProjectId): ReadonlyArray<QueueDepth> => {
  const { now } = tx
  const oldest = tx
    .all(firstClaimable, { projectId: projectId ?? null })
    .flatMap(({ first, kind, mode }) => (first <= now ? [{ kind, mode, readyMs: now - first }] : []))
  const counts =
    projectId === undefined ? tx.all(depthByLane, { now, limit }) : tx.all(depthOfProject, { now, limit, projectId })
  return queueDepths(counts, oldest)
}

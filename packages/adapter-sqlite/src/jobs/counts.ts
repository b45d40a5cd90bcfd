import { sql } from "kysely"
import { type JobId, maxAhead, type ProjectId, type QueuePlace } from "@kiln/core/domain"
import { isLimiting, JobsInProgress, ranks } from "@kiln/core/rules"
import { type ClaimRequest, type DepthState, type QueueDepth, queueDepths } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { select, type Values } from "../columns.ts"
import { bitOf } from "./lanes.ts"

/** Counts jobs under a lease, lane by lane, from an index that holds only claimed jobs. */
export const runningJobs = statement((given: Given<{ readonly now: number }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("jobs")
        .select("lane_id")
        .select((of) => [of.fn.countAll<number>().as("count"), of.fn.min<number>("claimable_at").as("firstEnd")])
        .where("held", "=", 1)
        .where("claimable_at", ">", given.now)
        .groupBy("lane_id")
        .as("running"),
    )
    .innerJoin("lanes", "lanes.id", "running.lane_id")
    .select(["lanes.mode", "lanes.kind", "lanes.project_id as projectId", "running.count", "running.firstEnd"]),
)

/** Counts the running jobs if there are limits to compare them with. */
export const countRunning = (tx: Transaction, { limits, worker }: ClaimRequest): JobsInProgress =>
  new JobsInProgress(limits, isLimiting(limits) ? tx.all(runningJobs, { now: tx.now }) : [], worker)

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

const placeOfJob = statement((given: Given<Values<"jobs", "id">>) =>
  query
    .selectFrom("jobs")
    .select(select("jobs", "id", "lane_id", "priority", "claimable_at", "project_id", "kind", "mode"))
    .where("id", "=", given.id),
)

type Before = Values<"jobs", "lane_id" | "priority" | "id"> & { readonly claimableAt: number; readonly limit: number }

/** Counts the jobs of a lane and rank that come before a place, up to a limit, in the order of the index. */
const jobsBeforePlace = statement((given: Given<Before>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom("jobs")
        .select("lane_id")
        .where("held", "=", 0)
        .where("lane_id", "=", given.laneId)
        .where("priority", "=", given.priority)
        .where("claimable_at", "is not", null)
        .where(sql<boolean>`(claimable_at, id) < (${given.claimableAt}, ${given.id})`)
        .limit(given.limit)
        .as("before"),
    )
    .select((of) => of.fn.countAll<number>().as("count")),
)

/** Finds the place of an unfinished job: see `JobDirectory.findPlace`. */
export const findPlace = (tx: Transaction, id: JobId): QueuePlace | undefined => {
  const job = tx.get(placeOfJob, { id })
  if (job === undefined || job.claimableAt === null) return undefined
  const { now } = tx
  const { claimableAt, kind, laneId, mode, priority, projectId } = job
  let ahead = 0
  for (const rank of ranks) {
    if (rank < priority || ahead >= maxAhead) break
    // No id is before the empty one, so jobs that become claimable after now are left out.
    const place =
      rank === priority && claimableAt <= now ? { claimableAt, id } : { claimableAt: now + 1, id: "" as JobId }
    ahead += tx.get(jobsBeforePlace, { laneId, priority: rank, limit: maxAhead - ahead, ...place })?.count ?? 0
  }
  const running = tx.all(runningJobs, { now }).filter((lane) => lane.mode === mode)
  const count = (lanes: typeof running) => lanes.reduce((sum, lane) => sum + lane.count, 0)
  return {
    now,
    ahead,
    running: {
      kind: count(running.filter((lane) => lane.kind === kind)),
      project: count(running.filter((lane) => lane.projectId === projectId)),
      all: count(running),
    },
  }
}

import { sql } from "kysely"
import { JobsInProgress, isLimiting, type JobMode, type Limited, type ProjectId } from "@kiln/core/domain"
import type { ClaimRequest, Runnable } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { batchStatement, type Given, hidden, plenty, query, statement, storeTime, whole } from "../Statement.ts"
import { heldNow } from "./heldNow.ts"
import type { LanePositions } from "./LanePositions.ts"

/** Serializes claims with limits until the transaction ends, so that each counts the jobs claimed by the one before. */
const oneAtATime = statement(() =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".claims', 0))`.as("lock"),
  ),
)

/** Counts held jobs. */
export const heldJobs = statement(() =>
  query
    .selectFrom(heldNow.as("held"))
    .select(["held.mode", "held.kind", "held.project_id as projectId"])
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      select.fn.min<number>("held.claimable_at").as("firstEnd"),
    ])
    .groupBy(["held.mode", "held.kind", "held.project_id"]),
)

/** Counts held jobs if there are limits. The request states the jobs in the worker's own slots, which needs no lock. */
export const countHeldJobs = async (session: Session, { limits, worker }: ClaimRequest): Promise<JobsInProgress> => {
  if (!isLimiting(limits)) return new JobsInProgress(limits, [], worker)
  await session.all(oneAtATime, {})
  return new JobsInProgress(limits, await session.all(heldJobs, {}), worker)
}

/** Projects at their limit, each as `mode id`. */
export const fullProjectNames = (inProgress: JobsInProgress): ReadonlyArray<string> =>
  (["sandbox", "live"] as const).flatMap((mode) => inProgress.fullProjects(mode).map((id) => `${mode} ${id}`))

/** A lane that may have claimable jobs, and its position. */
export interface Lane extends Limited {
  readonly id: number
  /** Lower bound of `claimable_at` in the lane: where the search starts. */
  readonly floor: number
  /** The turn at which it is served next; lanes of equal turn are ordered by `id`. */
  turn: number
}

type Page = {
  noted: number
  limit: number
  fullProjects: ReadonlyArray<string>
  without: ReadonlyArray<number>
}
type Kind = { kind: string; kindVersion: number; mode: JobMode }
const kindColumns = { kind: "text", kindVersion: "bigint", mode: "text" } as const

/** The virtual time at which a lane was last served: the stored one or this process's own, whichever is later. */
const clockOf = ({ noted }: Pick<Given<Page>, "noted">) =>
  sql<number>`(select greatest(virtual_time, ${whole(noted)}) from "kiln".fairness where id = 1)`

const selectLanes = ({ fullProjects, without }: Pick<Given<Page>, "fullProjects" | "without">) =>
  query
    .selectFrom("lanes")
    .select([
      "lanes.id",
      "lanes.project_id as projectId",
      "lanes.kind",
      "lanes.mode",
      "lanes.virtual_time as virtualTime",
      "lanes.next_at as nextAt",
    ])
    .whereRef("lanes.kind", "=", sql`${sql.ref("item.kind")}`)
    .whereRef("lanes.kind_version", "=", sql`${sql.ref("item.kindVersion")}`)
    .whereRef("lanes.mode", "=", sql`${sql.ref("item.mode")}`)
    .where("lanes.next_at", "<=", storeTime)
    .where(sql<boolean>`(lanes.mode || ' ' || lanes.project_id) <> all(${fullProjects}::text[])`)
    .where(sql<boolean>`lanes.id <> all(${without}::bigint[])`)

interface LaneRow {
  readonly id: number
  readonly projectId: ProjectId
  readonly kind: string
  readonly mode: JobMode
  readonly virtualTime: number
  readonly nextAt: number
}

/**
 * Lanes behind the clock start at the clock: a lane without claimable jobs does not accumulate credit. They are ordered by
 * their creation.
 */
const lanesBehind = batchStatement<Kind, Page, LaneRow>(kindColumns, (item, given) =>
  query
    .selectFrom(item)
    .innerJoinLateral(
      () =>
        selectLanes(given)
          .where("lanes.virtual_time", "<=", clockOf(given))
          .orderBy("lanes.id")
          .limit(hidden(given.limit))
          .as("lane"),
      (join) => join.onTrue(),
    )
    .selectAll("lane")
    .$castTo<LaneRow>(),
)

/** Lanes ahead of the clock start at their own virtual time. */
const lanesAhead = batchStatement<Kind, Page, LaneRow>(kindColumns, (item, given) =>
  query
    .selectFrom(item)
    .innerJoinLateral(
      () =>
        selectLanes(given)
          .innerJoin(plenty, (join) => join.onTrue())
          .where("lanes.virtual_time", ">", clockOf(given))
          .orderBy("lanes.virtual_time")
          .orderBy("lanes.id")
          .limit(hidden(given.limit))
          .as("lane"),
      (join) => join.onTrue(),
    )
    .selectAll("lane")
    .$castTo<LaneRow>(),
)

const fairnessClock = statement(() =>
  query.selectFrom("fairness").select("virtual_time as virtualTime").where("id", "=", 1),
)

/** The kinds of lanes that a worker can run, each once. */
export const distinctKinds = (runnable: ReadonlyArray<Runnable>): ReadonlyArray<Kind> => [
  ...new Map(
    runnable.map(({ kind, kindVersion, mode }) => [`${mode} ${kindVersion} ${kind}`, { kind, kindVersion, mode }]),
  ).values(),
]

/** Lanes found by a search. */
export interface LanesFound {
  readonly lanes: ReadonlyArray<Lane>
  readonly clock: number
  /** Whether there may be more lanes. */
  readonly more: boolean
}

/**
 * Finds lanes that may have claimable jobs and are below their limits, in the order in which they are served, up to `limit`.
 * `without`: lanes to skip.
 */
export const lanesWithWork = async (
  session: Session,
  { positions, runnable }: { readonly runnable: ReadonlyArray<Runnable>; readonly positions: LanePositions },
  limit: number,
  inProgress: JobsInProgress,
  without: ReadonlyArray<number>,
): Promise<LanesFound> => {
  const kinds = distinctKinds(runnable).filter((item) => !inProgress.kindIsFull(item))
  const page = { noted: positions.clock(0), limit, fullProjects: fullProjectNames(inProgress), without }
  const [behind, ahead, stored] = await Promise.all([
    session.batch(lanesBehind, kinds, page),
    session.batch(lanesAhead, kinds, page),
    session.get(fairnessClock, {}),
  ])
  const clock = positions.clock(stored?.virtualTime ?? 0)
  const lanes = [...behind, ...ahead].map(({ id, kind, mode, nextAt, projectId, virtualTime }) => ({
    id,
    kind,
    mode,
    projectId,
    floor: nextAt,
    turn: Math.max(positions.turn(id, virtualTime), clock),
  }))
  return { lanes: lanes.sort(byTurn), clock, more: behind.length >= limit || ahead.length >= limit }
}

const byTurn = (a: Lane, b: Lane): number => a.turn - b.turn || a.id - b.id

/** The number of jobs that a lane may give. */
export interface Share {
  readonly lane: Lane
  count: number
}

/** Whether a lane would have room if only its own turns of this distribution counted. */
const isHeldBack = (lane: Lane, own: number, inProgress: JobsInProgress): boolean => {
  const alone = inProgress.copy()
  for (let turn = 0; turn < own; turn += 1) alone.add(lane, Infinity, 0)
  return !alone.isFull(lane)
}

/**
 * Distributes `total` turns among lanes by start-time fair queueing, as if each had unlimited jobs: a served lane returns one
 * turn later. Lanes leave in order, so they return in order. No lane exceeds its limits. Where limits of kinds and of projects cross,
 * it stops at a lane that only the turns of others hold back: if those prove to be empty, this lane comes before the ones behind it.
 */
export const shareTurns = (
  lanes: ReadonlyArray<Lane>,
  total: number,
  inProgress: JobsInProgress,
  limitsCross: boolean,
): ReadonlyArray<Share> => {
  const given = inProgress.copy()
  const waiting = [...lanes].sort(byTurn)
  const served: Array<Lane> = []
  const shares = new Map<number, Share>()
  let next = 0
  for (let turns = 0; turns < total;) {
    const fresh = waiting[next]
    const again = served[0]
    const lane = fresh !== undefined && (again === undefined || byTurn(fresh, again) < 0) ? fresh : again
    if (lane === undefined) break
    if (lane === fresh) next += 1
    else served.shift()
    if (given.isFull(lane)) {
      if (limitsCross && isHeldBack(lane, shares.get(lane.id)?.count ?? 0, inProgress)) break
      continue
    }
    given.add(lane, Infinity, 0)
    const share = shares.get(lane.id) ?? { lane: lanes.find(({ id }) => id === lane.id) ?? lane, count: 0 }
    share.count += 1
    shares.set(lane.id, share)
    served.push({ ...lane, turn: lane.turn + 1 })
    turns += 1
  }
  return [...shares.values()]
}

import { sql } from "kysely"
import { InHand, isLimiting, type JobMode, type Limited, type ProjectId } from "@kiln/core/domain"
import type { ClaimRequest, Runnable } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { batchStatement, type Given, query, statement, storeTime, whole } from "../Statement.ts"
import type { LaneNotes } from "./LanePositions.ts"

/** Claims that ask for limits go one after the other: each counts what the one before it handed out. Ends with the transaction. */
const oneAtATime = statement(() =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".claims', 0))`.as("lock"),
  ),
)

/** Counted in an index of held jobs alone: however many jobs there are, those in hand are few. */
export const jobsInHand = statement(() =>
  query
    .selectFrom("queue")
    .select(["mode", "kind", "project_id as projectId"])
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      select.fn.min<number>("claimable_at").as("firstEnd"),
    ])
    .where("held", "=", true)
    .where("claimable_at", ">", storeTime)
    .groupBy(["mode", "kind", "project_id"]),
)

/** The jobs in hand, if limits ask for them. What the worker has in its own slots it says itself: no claim waits for another because of it. */
export const loadInHand = async (session: Session, { limits, worker }: ClaimRequest): Promise<InHand> => {
  if (!isLimiting(limits)) return new InHand(limits, [], worker)
  await session.all(oneAtATime, {})
  return new InHand(limits, await session.all(jobsInHand, {}), worker)
}

/** Projects of which no further job may be claimed in a mode, each as `mode id`. */
export const fullProjectNames = (inHand: InHand): ReadonlyArray<string> =>
  (["sandbox", "live"] as const).flatMap((mode) => inHand.fullProjects(mode).map((id) => `${mode} ${id}`))

/** A lane that may have something claimable, and where it stands. */
export interface Lane extends Limited {
  readonly id: number
  /** Nothing below this is claimable there: where to begin to look. */
  readonly floor: number
  /** The turn at which it is served next; lanes of equal turn by `id`. */
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

/** The virtual time at which a lane was last served: as it is stored, or as this process has noted it, if that is later. */
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
 * Lanes that stand behind the clock start at the clock: a lane that had nothing claimable for a
 * while saves up no credit. Among themselves they are in the order of their creation.
 */
export const lanesBehind = batchStatement<Kind, Page, LaneRow>(kindColumns, (item, given) =>
  query
    .selectFrom(item)
    .innerJoinLateral(
      () =>
        selectLanes(given)
          .where("lanes.virtual_time", "<=", clockOf(given))
          .orderBy("lanes.id")
          .limit(given.limit)
          .as("lane"),
      (join) => join.onTrue(),
    )
    .selectAll("lane")
    .$castTo<LaneRow>(),
)

/** The others start where they stand. */
export const lanesAhead = batchStatement<Kind, Page, LaneRow>(kindColumns, (item, given) =>
  query
    .selectFrom(item)
    .innerJoinLateral(
      () =>
        selectLanes(given)
          .where("lanes.virtual_time", ">", clockOf(given))
          .orderBy("lanes.virtual_time")
          .orderBy("lanes.id")
          .limit(given.limit)
          .as("lane"),
      (join) => join.onTrue(),
    )
    .selectAll("lane")
    .$castTo<LaneRow>(),
)

const fairnessClock = statement(() =>
  query.selectFrom("fairness").select("virtual_time as virtualTime").where("id", "=", 1),
)

const distinct = (runnable: ReadonlyArray<Runnable>): ReadonlyArray<Kind> => [
  ...new Map(
    runnable.map(({ kind, kindVersion, mode }) => [`${mode} ${kindVersion} ${kind}`, { kind, kindVersion, mode }]),
  ).values(),
]

/** Lanes as they were found. */
export interface LanesFound {
  readonly lanes: ReadonlyArray<Lane>
  readonly clock: number
  /** Whether there may be others behind them. */
  readonly more: boolean
}

/**
 * The lanes that may have something claimable now and are below their limits, in the order in which they are to be served, and
 * no more than can be needed. `without`: those that were looked into already.
 */
export const lanesWithWork = async (
  session: Session,
  { notes, runnable }: { readonly runnable: ReadonlyArray<Runnable>; readonly notes: LaneNotes },
  limit: number,
  inHand: InHand,
  without: ReadonlyArray<number>,
): Promise<LanesFound> => {
  const kinds = distinct(runnable).filter((item) => !inHand.kindIsFull(item))
  const page = { noted: notes.clock(0), limit, fullProjects: fullProjectNames(inHand), without }
  const [behind, ahead, stored] = await Promise.all([
    session.batch(lanesBehind, kinds, page),
    session.batch(lanesAhead, kinds, page),
    session.get(fairnessClock, {}),
  ])
  const clock = notes.clock(stored?.virtualTime ?? 0)
  const lanes = [...behind, ...ahead].map(({ id, kind, mode, nextAt, projectId, virtualTime }) => ({
    id,
    kind,
    mode,
    projectId,
    floor: nextAt,
    turn: Math.max(notes.turn(id, virtualTime), clock),
  }))
  return { lanes: lanes.sort(byTurn), clock, more: behind.length >= limit || ahead.length >= limit }
}

const byTurn = (a: Lane, b: Lane): number => a.turn - b.turn || a.id - b.id

/** So many of its first jobs are a lane's share. */
export interface Share {
  readonly lane: Lane
  count: number
}

/**
 * Shares out `total` turns among lanes in the order of start-time fair queueing, as if each had jobs without end: whoever is
 * served comes back one turn later. Lanes leave in order, so those that come back are in order too. `inHand` learns of
 * every turn, so no lane gets more than its limits allow.
 */
export const shareTurns = (lanes: ReadonlyArray<Lane>, total: number, inHand: InHand): ReadonlyArray<Share> => {
  const waiting = [...lanes].sort(byTurn)
  const served: Array<Lane> = []
  const shares = new Map<number, Share>()
  let next = 0
  for (let given = 0; given < total;) {
    const fresh = waiting[next]
    const again = served[0]
    const lane = fresh !== undefined && (again === undefined || byTurn(fresh, again) < 0) ? fresh : again
    if (lane === undefined) break
    if (lane === fresh) next += 1
    else served.shift()
    if (inHand.isFull(lane)) continue
    inHand.add(lane, Infinity, 0)
    const share = shares.get(lane.id) ?? { lane: lanes.find(({ id }) => id === lane.id) ?? lane, count: 0 }
    share.count += 1
    shares.set(lane.id, share)
    served.push({ ...lane, turn: lane.turn + 1 })
    given += 1
  }
  return [...shares.values()]
}

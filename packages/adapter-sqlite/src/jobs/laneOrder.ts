import { ClaimPlan, type JobsInProgress, type LaneLine, type LaneTurn } from "@kiln/core/domain"
import type { Runnable } from "@kiln/core/ports"
import { select, type Values } from "../columns.ts"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Lanes read at a time. */
const pageSize = 16

type Kind = Values<"lanes", "kind" | "kind_version" | "mode">
type Ready = Kind & { readonly now: number }

const readyLanes = ({ kind, kindVersion, mode, now }: Given<Ready>) =>
  query
    .selectFrom("lanes")
    .select(select("lanes", "id", "project_id", "virtual_time", "ranks"))
    .where("kind", "=", kind)
    .where("kind_version", "=", kindVersion)
    .where("mode", "=", mode)
    .where("next_at", "<=", now)
    .limit(pageSize)

/**
 * Lanes behind the clock, in order of creation. They start at the clock, so a lane that had nothing claimable for a while saves up
 * no credit.
 */
export const lanesBehind = statement((given: Given<Ready & { readonly clock: number; readonly afterId: number }>) =>
  readyLanes(given).where("virtual_time", "<=", given.clock).where("id", ">", given.afterId).orderBy("id"),
)

/** Lanes ahead of the clock, which start at their own virtual time. */
export const lanesAhead = statement((given: Given<Ready & { readonly afterTurn: number; readonly afterId: number }>) =>
  readyLanes(given)
    .where((where) => where(where.refTuple("virtual_time", "id"), ">", where.tuple(given.afterTurn, given.afterId)))
    .orderBy("virtual_time")
    .orderBy("id"),
)

type LaneRow = RowOf<typeof lanesAhead>
/** When a lane may have something. */
export type LaneTime = Pick<RowOf<typeof firstLanes>, "id" | "nextAt" | "ranks">

/** The two lanes of a kind that have something first: whether one, several or none may have something now, and when the next does. */
export const firstLanes = statement((given: Given<Kind>) =>
  query
    .selectFrom("lanes")
    .select(select("lanes", "id", "project_id", "virtual_time", "ranks", "next_at"))
    .where("kind", "=", given.kind)
    .where("kind_version", "=", given.kindVersion)
    .where("mode", "=", given.mode)
    .where("next_at", "is not", null)
    .orderBy("next_at")
    .limit(2)
    .$narrowType<{ nextAt: number }>(),
)

/** The virtual time at which a lane was last served. */
const fairnessClock = statement(() => query.selectFrom("fairness").select(select("fairness", "virtual_time")))

/** A lane at its turn. */
export interface Lane extends LaneTurn {
  /** The ranks that its jobs ever had, see `ranksIn`. */
  readonly ranks: number
}

/** Reads lanes in the order of one index, a page at a time. */
class Walk implements LaneLine<Lane> {
  readonly kind: Runnable
  readonly #load: (after: Place) => ReadonlyArray<Lane>
  #page: ReadonlyArray<Lane>
  #next = 0

  constructor(kind: Runnable, start: Place, load: (after: Place) => ReadonlyArray<Lane>) {
    this.kind = kind
    this.#load = load
    this.#page = load(start)
  }

  get head(): Lane | undefined {
    return this.#page[this.#next]
  }

  advance(): void {
    const last = this.#page[this.#next]
    this.#next += 1
    if (last === undefined || this.#next < this.#page.length || this.#page.length < pageSize) return
    this.#page = this.#load(last)
    this.#next = 0
  }
}

type Place = Pick<Lane, "id" | "turn">

/** A lane that needs no comparison with others, as a line of one. */
class Single implements LaneLine<Lane> {
  readonly kind: Lane
  head: Lane | undefined

  constructor(lane: Lane) {
    this.kind = lane
    this.head = lane
  }

  advance(): void {
    this.head = undefined
  }
}

/** The lanes that may have claimable jobs, in the order of `ClaimPlan`. */
export class LaneOrder {
  /** The turn at which a lane was served last. */
  clock: number
  /**
   * When lanes may have something, if at most one may have something now: for each kind, the first two lanes. `undefined` if several
   * may, which take turns.
   */
  readonly times: ReadonlyArray<LaneTime> | undefined
  readonly #plan: ClaimPlan<Lane>

  constructor(tx: Transaction, runnable: ReadonlyArray<Runnable>, running: JobsInProgress) {
    const clock = tx.get(fairnessClock, {})?.virtualTime ?? 0
    const open = distinct(runnable).filter((item) => !running.kindIsFull(item))
    const first = open.flatMap((item) => firstOf(tx, item, clock))
    const ready = first.filter(({ nextAt }) => nextAt <= tx.now)
    this.clock = clock
    // Most workers serve one project, or few that rarely wait at the same time. A lane on its own need not be compared with others.
    this.times = ready.length > 1 ? undefined : first
    const lines =
      ready.length > 1 ? open.flatMap((item) => walksOf(tx, item, clock)) : ready.map((lane) => new Single(lane))
    this.#plan = new ClaimPlan<Lane>(lines, running)
  }

  /** Whether at most one lane may have something now. */
  get isAlone(): boolean {
    return this.times !== undefined
  }

  /** Takes the lane whose turn it is. */
  take(): Lane | undefined {
    return this.#plan.take()
  }

  /** Records that a lane was served, and returns its next turn. */
  serve(lane: Lane): Lane {
    this.clock = lane.turn
    return this.#plan.serve(lane)
  }
}

const laneOf = ({ id, projectId, ranks }: LaneRow, { kind, mode }: Runnable, turn: number): Lane => ({
  id,
  turn,
  kind,
  mode,
  projectId,
  ranks,
})

const firstOf = (tx: Transaction, runnable: Runnable, clock: number): ReadonlyArray<Lane & LaneTime> => {
  const { kind, kindVersion, mode } = runnable
  return tx
    .all(firstLanes, { kind, kindVersion, mode })
    .map((lane) => ({ ...laneOf(lane, runnable, Math.max(clock, lane.virtualTime)), nextAt: lane.nextAt }))
}

const walksOf = (tx: Transaction, runnable: Runnable, clock: number): ReadonlyArray<Walk> => {
  const { now } = tx
  const { kind, kindVersion, mode } = runnable
  return [
    new Walk(runnable, { turn: clock, id: -1 }, ({ id }) =>
      tx
        .all(lanesBehind, { kind, kindVersion, mode, now, clock, afterId: id })
        .map((lane) => laneOf(lane, runnable, clock)),
    ),
    new Walk(runnable, { turn: clock, id: Number.MAX_SAFE_INTEGER }, ({ id, turn }) =>
      tx
        .all(lanesAhead, { kind, kindVersion, mode, now, afterTurn: turn, afterId: id })
        .map((lane) => laneOf(lane, runnable, lane.virtualTime)),
    ),
  ]
}

const distinct = (runnable: ReadonlyArray<Runnable>): ReadonlyArray<Runnable> => [
  ...new Map(runnable.map((item) => [`${item.mode} ${item.kindVersion} ${item.kind}`, item])).values(),
]

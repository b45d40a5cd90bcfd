import { sql } from "kysely"
import type { ProjectId } from "@kiln/core/domain"
import { ClaimPlan, type JobsInProgress, type LaneLine, type LaneTurn, ranks, rankOf } from "@kiln/core/rules"
import type { Runnable } from "@kiln/core/ports"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { assign, select, type Values } from "../columns.ts"

/** A lane holds the jobs of one project, kind, version and mode. */
type LaneKey = Values<"lanes", "project_id" | "kind" | "kind_version" | "mode">

const laneByKey = statement((given: Given<LaneKey>) =>
  query
    .selectFrom("lanes")
    .select(select("lanes", "id", "next_at", "ranks"))
    .where("project_id", "=", given.projectId)
    .where("kind", "=", given.kind)
    .where("kind_version", "=", given.kindVersion)
    .where("mode", "=", given.mode),
)

export type LaneRow = RowOf<typeof laneByKey>

/** Lanes are numbered in order of creation, which decides between lanes of the same virtual time. */
const insertLane = statement((given: Given<LaneKey>) =>
  query.insertInto("lanes").values(assign(given, "project_id", "kind", "kind_version", "mode")),
)

const keyOf = ({ kind, kindVersion, mode, projectId }: LaneKey): LaneKey => ({ projectId, kind, kindVersion, mode })

export const findLane = (tx: Transaction, job: LaneKey): LaneRow | undefined => tx.get(laneByKey, keyOf(job))

export const createLane = (tx: Transaction, job: LaneKey): LaneRow => {
  const id = tx.insert(insertLane, keyOf(job))
  if (id === undefined) throw new TypeError("the lane was not inserted")
  return { id, nextAt: null, ranks: bitOf(rankOf("normal")) }
}

const addBit = statement((given: Given<Values<"lanes", "id"> & { readonly bit: number }>) =>
  query
    .updateTable("lanes")
    .set({ ranks: sql<number>`ranks | ${given.bit}` })
    .where("id", "=", given.id),
)

/** From now on, claims look for jobs of this rank in this lane. */
export const addRank = (tx: Transaction, id: number, rank: number): void => {
  tx.run(addBit, { id, bit: bitOf(rank) })
}

/**
 * Keeps `next_at` a lower bound. Writes only an earlier time, so creating and extending jobs rarely write here; a claim that
 * finds nothing raises it again.
 */
const lowerNextAt = statement((given: Given<{ readonly id: number; readonly nextAt: number }>) =>
  query
    .updateTable("lanes")
    .set({ next_at: given.nextAt })
    .where("id", "=", given.id)
    .where((where) => where.or([where("next_at", "is", null), where("next_at", ">", given.nextAt)])),
)

/** Records that a job of this lane may become claimable at `nextAt`. */
export const mayBeClaimableAt = (tx: Transaction, id: number, nextAt: number): void => {
  tx.run(lowerNextAt, { id, nextAt })
}

/** Reads every lane. Lanes stay when their jobs are deleted. */
export const allKinds = statement(() => query.selectFrom("lanes").select("kind").distinct().orderBy("kind"))

// Lanes keep which ranks their jobs ever had, a bit for each, so that claims look only for those.

const lowest = Math.min(...ranks)

export const bitOf = (rank: number): number => 1 << (rank - lowest)

/** Returns the ranks of a lane in the order in which they are served. */
export const ranksIn = (bits: number): ReadonlyArray<number> => ranks.filter((rank) => (bits & bitOf(rank)) !== 0)

/** Whether a lane knows a rank. */
export const knowsRank = ({ priority }: Given<{ readonly priority: number }>) =>
  sql<boolean>`((ranks >> (${priority} - ${sql.lit(lowest)})) & 1 = 1)`

/** Lanes read at a time. */
const pageSize = 16

type Kind = Values<"lanes", "kind" | "kind_version" | "mode">
type Page = Kind & { readonly now: number; readonly afterTurn: number; readonly afterId: number }

/** Lanes that may have claimable jobs, in the order in which they are served. */
export const lanesInTurn = statement((given: Given<Page>) =>
  query
    .selectFrom("lanes")
    .select(select("lanes", "id", "project_id", "virtual_time", "ranks"))
    .where("kind", "=", given.kind)
    .where("kind_version", "=", given.kindVersion)
    .where("mode", "=", given.mode)
    .where("next_at", "<=", given.now)
    .where((where) => where(where.refTuple("virtual_time", "id"), ">", where.tuple(given.afterTurn, given.afterId)))
    .orderBy("virtual_time")
    .orderBy("id")
    .limit(pageSize),
)

type ReadyLane = RowOf<typeof lanesInTurn>
/** When a lane may have something. */
type LaneTime = Pick<RowOf<typeof firstLanes>, "id" | "nextAt" | "ranks">

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

/** Reads the lanes of a kind in the order of an index, a page at a time. */
class Walk implements LaneLine<Lane> {
  readonly kind: Runnable
  readonly #load: (after: Place) => ReadonlyArray<Lane>
  #page: ReadonlyArray<Lane>
  #next = 0

  constructor(kind: Runnable, load: (after: Place) => ReadonlyArray<Lane>) {
    this.kind = kind
    this.#load = load
    this.#page = load({ id: -1, since: -1 })
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

type Place = Pick<Lane, "id" | "since">

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
    const lines = ready.length > 1 ? open.map((item) => walkOf(tx, item, clock)) : ready.map((lane) => new Single(lane))
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

/** A lane behind the clock starts at the clock, so one that had nothing claimable for a while saves up no credit. */
const laneOf = (
  { id, projectId, ranks: bits, virtualTime }: ReadyLane,
  { kind, mode }: Runnable,
  clock: number,
): Lane => ({
  id,
  turn: Math.max(clock, virtualTime),
  since: virtualTime,
  kind,
  mode,
  projectId,
  ranks: bits,
})

const firstOf = (tx: Transaction, runnable: Runnable, clock: number): ReadonlyArray<Lane & LaneTime> => {
  const { kind, kindVersion, mode } = runnable
  return tx
    .all(firstLanes, { kind, kindVersion, mode })
    .map((lane) => ({ ...laneOf(lane, runnable, clock), nextAt: lane.nextAt }))
}

const walkOf = (tx: Transaction, runnable: Runnable, clock: number): Walk => {
  const { now } = tx
  const { kind, kindVersion, mode } = runnable
  return new Walk(runnable, ({ id, since }) =>
    tx
      .all(lanesInTurn, { kind, kindVersion, mode, now, afterTurn: since, afterId: id })
      .map((lane) => laneOf(lane, runnable, clock)),
  )
}

const distinct = (runnable: ReadonlyArray<Runnable>): ReadonlyArray<Runnable> => [
  ...new Map(runnable.map((item) => [`${item.mode} ${item.kindVersion} ${item.kind}`, item])).values(),
]

type RankAt = { readonly laneId: number; readonly rank: number; readonly now: number }

const claimableLater = (given: Given<RankAt>, held: 0 | 1) =>
  query
    .selectFrom("jobs")
    .select(select("jobs", "claimable_at"))
    .where("held", "=", held)
    .where("lane_id", "=", given.laneId)
    .where("priority", "=", given.rank)
    .where("claimable_at", ">", given.now)
    .whereRef("deadline_at", ">", "claimable_at")
    .$narrowType<{ claimableAt: number }>()

/**
 * When a rank of a lane with nothing claimable has something again, whether held or not: one range of the index for each. A job whose
 * deadline comes first never becomes claimable.
 */
export const nextOfRank = statement((given: Given<RankAt>) =>
  claimableLater(given, 0).unionAll(claimableLater(given, 1)).orderBy("claimableAt").limit(1),
)

/** Writes only a change, so that an idle worker's claim is not a commit. */
const setNextAt = statement((given: Given<Values<"lanes", "id" | "next_at">>) =>
  query
    .updateTable("lanes")
    .set({ next_at: given.nextAt })
    .where("id", "=", given.id)
    .where("next_at", "is not", given.nextAt),
)

const lanesByNext = ({ kind, kindVersion, mode }: Given<Kind>) =>
  query
    .selectFrom("lanes")
    .select(select("lanes", "id", "next_at", "ranks"))
    .where("kind", "=", kind)
    .where("kind_version", "=", kindVersion)
    .where("mode", "=", mode)
    .where("next_at", "is not", null)
    .orderBy("next_at")
    .limit(1)
    .$narrowType<{ nextAt: number }>()

export const earliestLane = statement((given: Given<Kind>) => lanesByNext(given))

/** Without the lanes of some projects, given as a JSON list. Those lanes come first in the index, and are few. */
export const earliestLaneOfOthers = statement((given: Given<Kind & { readonly projects: string }>) =>
  lanesByNext(given).where("project_id", "not in", sql<ProjectId>`(SELECT value FROM json_each(${given.projects}))`),
)

const setTurnAndNextAt = statement((given: Given<Values<"lanes", "id" | "next_at"> & { readonly turn: number }>) =>
  query.updateTable("lanes").set({ virtual_time: given.turn, next_at: given.nextAt }).where("id", "=", given.id),
)

/**
 * Records when a lane with nothing claimable has something again, and its turn if it was served. Until then, claims skip it.
 */
export const settleLane = (
  tx: Transaction,
  { id, ranks: bits }: Values<"lanes", "id" | "ranks">,
  turn?: number,
): number | null => {
  const times = ranksIn(bits).map(
    (rank) => tx.get(nextOfRank, { laneId: id, rank, now: tx.now })?.claimableAt ?? Infinity,
  )
  const first = Math.min(...times)
  const nextAt = first === Infinity ? null : first
  if (turn === undefined) tx.run(setNextAt, { id, nextAt })
  else tx.run(setTurnAndNextAt, { id, nextAt, turn })
  return nextAt
}

/** Maximum number of lanes that one claim corrects, so that claims stay short after a burst in many lanes. */
const maxCorrections = 16

/** A claim's view of the lanes. */
interface KnownLanes {
  /** When lanes may have something, before the claim. `undefined`: they must be read. */
  readonly times: ReadonlyArray<LaneTime> | undefined
  /** The lanes that the claim has settled. */
  readonly settled: ReadonlyMap<number, number | null>
}

/**
 * Returns the milliseconds until one of these lanes may have something, once those with nothing claimable now are settled. The
 * earliest time is checked before it is returned, because its job may have finished or its lease may have been extended. Lanes at
 * their limit are not settled; they count when they have capacity again.
 */
export const nextInMs = (
  tx: Transaction,
  runnable: ReadonlyArray<Runnable>,
  running: JobsInProgress,
  { settled, times }: KnownLanes,
): number | undefined => {
  const roomAt = running.firstRoomAt(runnable)
  const open = runnable.filter((item) => !running.kindIsFull(item))
  const isKnown = times !== undefined && open.every(({ mode }) => running.fullProjects(mode).length === 0)
  let known =
    isKnown && open.length === runnable.length ? times.flatMap((lane) => afterClaim(lane, settled)) : undefined
  for (let corrections = 0; ; corrections += 1) {
    const lanes = known ?? open.flatMap((item) => earliestOf(tx, item, running) ?? [])
    const earliest = lanes.reduce((a, b) => (b.nextAt < a.nextAt ? b : a), { id: -1, nextAt: Infinity, ranks: 0 })
    if (roomAt <= earliest.nextAt) return roomAt === Infinity ? undefined : roomAt - tx.now
    const isExact = settled.has(earliest.id) || corrections === maxCorrections
    if (isExact || settleLane(tx, earliest) === earliest.nextAt) return earliest.nextAt - tx.now
    known = undefined
  }
}

const afterClaim = (lane: LaneTime, settled: KnownLanes["settled"]): ReadonlyArray<LaneTime> => {
  const nextAt = settled.get(lane.id)
  if (nextAt === undefined) return [lane]
  return nextAt === null ? [] : [{ ...lane, nextAt }]
}

const earliestOf = (tx: Transaction, { kind, kindVersion, mode }: Runnable, running: JobsInProgress) => {
  const lanes = { kind, kindVersion, mode }
  const full = running.fullProjects(mode)
  return full.length === 0
    ? tx.get(earliestLane, lanes)
    : tx.get(earliestLaneOfOthers, { ...lanes, projects: JSON.stringify(full) })
}

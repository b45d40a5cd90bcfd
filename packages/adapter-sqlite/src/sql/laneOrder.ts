import type { InHand, JobMode, ProjectId } from "@kiln/core/domain"
import type { Runnable } from "@kiln/core/ports"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Lanes read at a time. */
const pageSize = 16

type Page = {
  kind: string
  kindVersion: number
  mode: JobMode
  now: number
  clock: number
  afterTurn: number
  afterId: number
}

const mayHaveWork = ({ kind, kindVersion, mode, now }: Pick<Given<Page>, "kind" | "kindVersion" | "mode" | "now">) =>
  query
    .selectFrom("lanes")
    .select(["id", "project_id as projectId", "virtual_time as virtualTime", "prioritized"])
    .where("kind", "=", kind)
    .where("kind_version", "=", kindVersion)
    .where("mode", "=", mode)
    .where("next_at", "<=", now)
    .limit(pageSize)

/**
 * Lanes that stand behind the clock start at the clock: a lane that had nothing claimable for a
 * while saves up no credit. Among themselves they are in the order of their creation.
 */
export const lanesBehind = statement((given: Given<Omit<Page, "afterTurn">>) =>
  mayHaveWork(given).where("virtual_time", "<=", given.clock).where("id", ">", given.afterId).orderBy("id"),
)

/** The others start where they stand. */
export const lanesAhead = statement((given: Given<Omit<Page, "clock">>) =>
  mayHaveWork(given)
    .where((where) => where(where.refTuple("virtual_time", "id"), ">", where.tuple(given.afterTurn, given.afterId)))
    .orderBy("virtual_time")
    .orderBy("id"),
)

type LaneRow = RowOf<typeof lanesAhead>

/** The virtual time at which a lane was last served. */
const fairnessClock = statement(() => query.selectFrom("fairness").select("virtual_time as virtualTime"))

/** A lane's place in the order: served at `turn`, lanes of equal turn by `id`. */
export interface Turn {
  readonly id: number
  readonly turn: number
}

/** A lane in its place. */
export interface Lane extends Turn {
  readonly kind: string
  readonly mode: JobMode
  readonly projectId: ProjectId
  /** Whether there were ever jobs of another priority than normal. */
  readonly prioritized: boolean
}

const comesBefore = (a: Turn, b: Turn): boolean => a.turn < b.turn || (a.turn === b.turn && a.id < b.id)

/** One index walked in its order, a page at a time. */
class Walk {
  readonly runnable: Runnable
  readonly #load: (after: Turn) => ReadonlyArray<Lane>
  #page: ReadonlyArray<Lane>
  #next = 0

  constructor(runnable: Runnable, start: Turn, load: (after: Turn) => ReadonlyArray<Lane>) {
    this.runnable = runnable
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

/**
 * The lanes that may have something claimable, in the order of start-time fair queueing, read only
 * as far as they are asked for. A lane that was served comes back one turn later. Since lanes leave
 * in order, those that come back are in order too: a queue is enough. Lanes at their limit are left
 * out; a claim makes no room, so what is full stays full.
 */
export class LaneOrder {
  /** The turn at which a lane was served last. */
  clock: number
  readonly #walks: ReadonlyArray<Walk>
  readonly #inHand: InHand
  readonly #served: Array<Lane> = []

  constructor(tx: Transaction, runnable: ReadonlyArray<Runnable>, inHand: InHand) {
    const clock = tx.get(fairnessClock, {})?.virtualTime ?? 0
    this.clock = clock
    this.#inHand = inHand
    this.#walks = distinct(runnable)
      .filter((item) => !inHand.kindIsFull(item))
      .flatMap((item) => walksOf(tx, item, clock))
  }

  /** Takes the lane whose turn it is. */
  take(): Lane | undefined {
    let lane = this.#takeAny()
    while (lane !== undefined && this.#inHand.isFull(lane)) lane = this.#takeAny()
    return lane
  }

  #takeAny(): Lane | undefined {
    let first = this.#served[0]
    let from: Walk | undefined
    for (const walk of this.#walks) {
      // There may be thousands of lanes of one kind.
      if (this.#inHand.kindIsFull(walk.runnable)) continue
      const { head } = walk
      if (head === undefined || (first !== undefined && !comesBefore(head, first))) continue
      first = head
      from = walk
    }
    if (from === undefined) this.#served.shift()
    else from.advance()
    return first
  }

  /** Says that a lane was served at its turn, and returns its next one. */
  serve(lane: Lane): Turn {
    this.clock = lane.turn
    const next = { ...lane, turn: lane.turn + 1 }
    this.#served.push(next)
    return next
  }
}

const walksOf = (tx: Transaction, runnable: Runnable, clock: number): ReadonlyArray<Walk> => {
  const { now } = tx
  const { kind, kindVersion, mode } = runnable
  const laneAt = ({ id, prioritized, projectId }: LaneRow, turn: number): Lane => ({
    id,
    turn,
    kind,
    mode,
    projectId,
    prioritized: prioritized === 1,
  })
  return [
    new Walk(runnable, { turn: clock, id: -1 }, ({ id }) =>
      tx.all(lanesBehind, { kind, kindVersion, mode, now, clock, afterId: id }).map((lane) => laneAt(lane, clock)),
    ),
    new Walk(runnable, { turn: clock, id: Number.MAX_SAFE_INTEGER }, ({ id, turn }) =>
      tx
        .all(lanesAhead, { kind, kindVersion, mode, now, afterTurn: turn, afterId: id })
        .map((lane) => laneAt(lane, lane.virtualTime)),
    ),
  ]
}

const distinct = (runnable: ReadonlyArray<Runnable>): ReadonlyArray<Runnable> => [
  ...new Map(runnable.map((item) => [`${item.mode} ${item.kindVersion} ${item.kind}`, item])).values(),
]

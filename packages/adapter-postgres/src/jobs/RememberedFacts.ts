import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Job, SpendOwner, StoreUnavailable } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import { loadBoard, type StoredBoard } from "../board.ts"
import type { Database } from "../Database.ts"
import { StorageRoom } from "../uploads/keptBytes.ts"
import { assumedJob, assumedOf } from "./assumedFacts.ts"
import { asStored, cappedOwners, type Read } from "./createJobs.ts"
import type { CapCheck, Compared, Counted } from "./insertJobs.ts"
import { RememberedLanes } from "./lanes.ts"
import type { Lanes, NewRow } from "./newRows.ts"

/** Maximum number of remembered projects; when it is exceeded, all are forgotten. */
const mostRemembered = 10_000
/** After this time, a project is counted again, because a database that was restored gives numbers a second time. */
const rememberedForNanos = 300_000_000_000n

/** What this process has counted of projects that have a queue cap. Wrong only in one direction: there may be fewer jobs. */
class CountedProjects {
  readonly #counts = new Map<string, Counted & { readonly at: bigint }>()

  of(projectId: string, now: bigint): Counted | undefined {
    const known = this.#counts.get(projectId)
    return known !== undefined && now - known.at < rememberedForNanos ? known : undefined
  }

  remember(counts: ReadonlyArray<Counted>, now: bigint): void {
    if (this.#counts.size + counts.length > mostRemembered) this.#counts.clear()
    for (const counted of counts) this.#counts.set(counted.project_id, { ...counted, at: now })
  }
}

/** Jobs that one statement may add. */
export interface Addable {
  readonly items: ReadonlyArray<NewJob>
  readonly rows: ReadonlyArray<NewRow>
  readonly lanes: Lanes
  readonly compared: Compared
  /** Returns the job of an item that was accepted at this store time. */
  readonly jobAt: (item: NewJob, now: number) => Job
}

/** The caps of these items' projects: the lowest that one of them names, and all jobs that are added. */
const capsOf = (
  items: ReadonlyArray<NewJob>,
  countedOf: (projectId: string) => Counted | undefined,
): ReadonlyArray<CapCheck> => {
  const caps = new Map<string, Omit<CapCheck, "cap" | "adding"> & { cap: number; adding: number }>()
  for (const { projectId, queueCap } of items)
    if (queueCap > 0) {
      const known = caps.get(projectId)
      if (known === undefined) {
        const { counted = null, counted_to = null } = countedOf(projectId) ?? {}
        caps.set(projectId, { project_id: projectId, cap: queueCap, adding: 0, counted, counted_to })
      } else known.cap = Math.min(known.cap, queueCap)
    }
  if (caps.size > 0)
    for (const { projectId } of items) {
      const cap = caps.get(projectId)
      if (cap !== undefined) cap.adding += 1
    }
  return [...caps.values()]
}

/** Maximum number of remembered owners with a spend cap; when it is exceeded, all are forgotten. */
const mostOwners = 10_000

/**
 * The facts that a process remembers, so that it can accept jobs without reading. It refuses nothing by them, and the statement that
 * adds the jobs compares them: a stale fact costs a round trip and never leads to a wrong decision.
 */
export class RememberedFacts {
  readonly lanes = new RememberedLanes()
  readonly #db: Pick<Database, "read">
  readonly #room: StorageRoom
  readonly #capped = new Set<SpendOwner>()
  readonly #counted = new CountedProjects()
  #board: StoredBoard | undefined

  constructor(db: Pick<Database, "read">) {
    this.#db = db
    this.#room = new StorageRoom(db)
  }

  /**
   * Returns what one statement may add; `undefined` if the facts must be read. `own`: in a transaction of this process's. In a caller's, money is
   * reserved on another connection.
   */
  addable(items: ReadonlyArray<NewJob>, own = true): Effect.Effect<Addable | undefined, StoreUnavailable> {
    return Clock.clockWith((clock) => {
      const jobs = own || !this.#isCapped(items) ? this.#assumed(items, clock) : undefined
      if (jobs === undefined) return Effect.undefined
      return Effect.map(this.#room.has(items), (hasRoom) => (hasRoom ? jobs : undefined))
    })
  }

  #assumed(items: ReadonlyArray<NewJob>, clock: Clock.Clock): Addable | undefined {
    const lanes = this.lanes.ofAll(items)
    const board = this.#board
    const assumed = lanes === undefined ? undefined : assumedOf(items, board, (owner) => this.#capped.has(owner))
    if (lanes === undefined || assumed === undefined) return undefined
    return {
      items,
      rows: assumed.rows,
      lanes,
      compared: {
        caps: capsOf(items, (projectId) => this.#counted.of(projectId, clock.monotonicTimeNanosUnsafe())),
        costs: assumed.costs,
        board: assumed.board,
        servedUntil: assumed.servedUntil,
      },
      jobAt: (item, now) => {
        const job = assumedJob(item, board, now)
        if (job === undefined) throw new TypeError("a job was added that the remembered facts refuse")
        return asStored(job)
      },
    }
  }

  /** Whether spending has to be counted for one of these items. */
  #isCapped(items: ReadonlyArray<NewJob>): boolean {
    return this.#capped.size > 0 && cappedOwners(items).some((owner) => this.#capped.has(owner))
  }

  /** Whether the board has to be read before these items can be judged from memory. */
  lacksBoard(items: ReadonlyArray<NewJob>): boolean {
    return this.#board === undefined && items.some(({ gate }) => gate !== null)
  }

  readonly reloadBoard: Effect.Effect<void, StoreUnavailable> = Effect.suspend(() =>
    Effect.map(this.#db.read("JobStore.createJobs", loadBoard), (board) => this.rememberBoard(board)),
  )

  /** Remembers a board without its live workers, because they can withdraw their entries. The times at which kinds were last served stay. */
  rememberBoard(board: StoredBoard): void {
    this.#board = { ...board, liveKinds: [] }
  }

  /** Remembers projects whose jobs were counted, also where the answer comes after others: what was counted stays true. */
  rememberCounts(counts: ReadonlyArray<Counted>): Effect.Effect<void> {
    return Clock.clockWith((clock) =>
      Effect.sync(() => this.#counted.remember(counts, clock.monotonicTimeNanosUnsafe())),
    )
  }

  /** Remembers the facts that were read to judge these items. */
  remember(items: ReadonlyArray<NewJob>, { board, lanes, spending }: Read): void {
    this.lanes.remember(lanes)
    if (board !== undefined) this.rememberBoard(board)
    if (this.#capped.size > mostOwners) this.#capped.clear()
    for (const owner of cappedOwners(items)) this.#capped.delete(owner)
    for (const { owner } of spending.caps) this.#capped.add(owner)
  }
}

import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import type { Values } from "../columns.ts"
import { isCorrupt } from "../sqliteErrors.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { jobBySeq, type JobRow, selectJobs, stateColumns } from "./JobRow.ts"
import type { Lane } from "./laneOrder.ts"
import { ranksIn } from "./lanes.ts"
import { UnreadableJob } from "./unreadableJobs.ts"

/** One range of the index of ready jobs: those of a lane and priority that are held, or are not. */
type Range = Values<"jobs", "lane_id" | "held"> & { readonly rank: number }

/** The job after which a page begins. The empty id sorts before every id. */
type After = { readonly afterTime: number; readonly afterId: JobId | "" }

const start: After = { afterTime: -1, afterId: "" }

type Page = Range & After & { readonly now: number; readonly limit: number }

/**
 * The first claimable jobs of a range, in its order. Overdue jobs are left to the sweep. The plus keeps the planner from starting at
 * the index of deadlines.
 */
export const claimableJobs = statement((given: Given<Page>) =>
  selectJobs
    .where("jobs.held", "=", given.held)
    .where("jobs.lane_id", "=", given.laneId)
    .where("jobs.priority", "=", given.rank)
    .where(sql<boolean>`(claimable_at, ${sql.ref("jobs.id")}) > (${given.afterTime}, ${given.afterId})`)
    .where("jobs.claimable_at", "<=", given.now)
    .where(sql<number>`+deadline_at`, ">", given.now)
    .orderBy("jobs.claimable_at")
    .orderBy("jobs.id")
    .limit(given.limit),
)

/** The same jobs without the data that may be on corrupt pages. */
export const claimableStates = statement((given: Given<Page>) =>
  query
    .selectFrom("jobs")
    .select(stateColumns)
    .where("held", "=", given.held)
    .where("lane_id", "=", given.laneId)
    .where("priority", "=", given.rank)
    .where(sql<boolean>`(claimable_at, id) > (${given.afterTime}, ${given.afterId})`)
    .where("claimable_at", "<=", given.now)
    .where(sql<number>`+deadline_at`, ">", given.now)
    .orderBy("claimable_at")
    .orderBy("id")
    .limit(given.limit),
)

/** The claimable jobs of a range. Pages double, since most claims take one job per lane or all of one. */
class ReadyRange {
  readonly #tx: Transaction
  readonly #range: Range
  #rows: ReadonlyArray<JobRow> = []
  #next = 0
  #limit: number
  #after = start
  #isLastPage = false

  constructor(tx: Transaction, range: Range, firstPage: number) {
    this.#tx = tx
    this.#range = range
    this.#limit = firstPage
  }

  /** Returns the next job. */
  peek(atMost: number): JobRow | undefined {
    if (this.#next === this.#rows.length && !this.#isLastPage) {
      const limit = Math.min(this.#limit, atMost)
      this.#rows = this.#read({ ...this.#range, ...this.#after, now: this.#tx.now, limit })
      this.#next = 0
      const last = this.#rows.at(-1)
      if (last !== undefined) this.#after = { afterTime: last.claimableAt ?? 0, afterId: last.id }
      this.#isLastPage = this.#rows.length < limit
      this.#limit *= 2
    }
    return this.#rows[this.#next]
  }

  drop(): void {
    this.#next += 1
  }

  #read(page: Page): ReadonlyArray<JobRow> {
    try {
      return this.#tx.all(claimableJobs, page)
    } catch (error) {
      throw isCorrupt(error) ? this.#unreadable(page, error) : error
    }
  }

  /** Finds the job that caused the error, by reading one at a time. */
  #unreadable(page: Page, error: unknown): unknown {
    for (const { id, seq } of this.#tx.all(claimableStates, page)) {
      try {
        this.#tx.get(jobBySeq, { seq })
      } catch (cause) {
        if (isCorrupt(cause)) return new UnreadableJob(id, cause)
        throw cause
      }
    }
    return error
  }
}

const comesBefore = (a: JobRow, b: JobRow): boolean => {
  const [first, second] = [a.claimableAt ?? 0, b.claimableAt ?? 0]
  return first === second ? a.id < b.id : first < second
}

/** The claimable jobs of a lane, one priority after the other: those that wait, and those whose lease has ended. */
export class ReadyJobs {
  /** The priorities that may have a job left, highest first. */
  readonly #priorities: Array<{ readonly waiting: ReadyRange; readonly lost: ReadyRange }>

  #peeked: ReadyRange | undefined

  /** `firstPage`: jobs to read at first. */
  constructor(tx: Transaction, { id: laneId, ranks }: Lane, firstPage: number) {
    this.#priorities = ranksIn(ranks).map((rank) => ({
      waiting: new ReadyRange(tx, { laneId, rank, held: 0 }, firstPage),
      lost: new ReadyRange(tx, { laneId, rank, held: 1 }, firstPage),
    }))
  }

  /** Returns the next job. */
  peek(atMost: number): JobRow | undefined {
    for (let current = this.#priorities[0]; current !== undefined; current = this.#priorities[0]) {
      const waiting = current.waiting.peek(atMost)
      const lost = current.lost.peek(atMost)
      if (waiting !== undefined || lost !== undefined) {
        const isWaiting = waiting !== undefined && (lost === undefined || comesBefore(waiting, lost))
        this.#peeked = isWaiting ? current.waiting : current.lost
        return isWaiting ? waiting : lost
      }
      this.#priorities.shift()
    }
    return undefined
  }

  /** Drops the job that was peeked at. */
  drop(): void {
    this.#peeked?.drop()
  }
}

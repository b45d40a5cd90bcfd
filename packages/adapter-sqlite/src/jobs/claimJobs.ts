import { sql } from "kysely"
import type { JobId, JobState } from "@kiln/core/domain"
import { applyEvent, isLimiting, lostTooMany } from "@kiln/core/rules"
import type { Claim, ClaimRequest, ClaimResult } from "@kiln/core/ports"
import { UndecodableRow } from "@kiln/sql-store"
import { isCorrupt } from "../SqliteDatabase.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import type { Values } from "../columns.ts"
import { findUpload } from "../uploads.ts"
import {
  jobBySeq,
  jobOf,
  type JobRow,
  type Move,
  selectJobs,
  stateById,
  stateColumns,
  stateOf,
  writeClaims,
  writeState,
} from "./JobRow.ts"
import { countRunning } from "./counts.ts"
import { type Lane, LaneOrder, nextInMs, ranksIn, settleLane } from "./lanes.ts"

/** A job cannot be claimed because its row is damaged or on a corrupt page. */
export class UnreadableJob extends Error {
  override readonly name = "UnreadableJob"
  readonly jobId: JobId
  constructor(jobId: JobId, cause: unknown) {
    super(`${jobId} cannot be read`, { cause })
    this.jobId = jobId
  }
}

/**
 * Fails a job without reading it, as if it had been claimed. Otherwise it would return to every worker forever and block its lane.
 * Runs in a separate transaction, because SQLite rejects further writes in a transaction that met a corrupt page.
 */
export const failUnreadable = (tx: Transaction, jobId: JobId): void => {
  const job = tx.get(stateById, { id: jobId })
  const claimed = job && applyEvent(stateOf(job), { event: "claimed", leaseDurationMs: 1 }, tx.now)
  const failed =
    claimed && applyEvent(claimed, { event: "failed", token: claimed.token, errorCode: "internal_error" }, tx.now)
  // Another process may already have failed it.
  if (job !== undefined && failed !== undefined) writeState(tx, job, failed)
}

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
class ReadyJobs {
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

  drop(): void {
    this.#peeked?.drop()
  }
}

const setTurn = statement((given: Given<Values<"lanes", "id"> & { readonly turn: number }>) =>
  query.updateTable("lanes").set({ virtual_time: given.turn }).where("id", "=", given.id),
)

const setClock = statement((given: Given<{ readonly clock: number }>) =>
  query.updateTable("fairness").set({ virtual_time: given.clock }),
)

/**
 * Serves lane after lane, one job per turn, up to the limit. A lane that turns out to be empty gets a new `next_at`, so the next
 * claim skips it; a lane at its limit keeps its own.
 */
export const claimJobs = (tx: Transaction, request: ClaimRequest): ClaimResult => {
  const running = countRunning(tx, request)
  const order = new LaneOrder(tx, request.runnable, running)
  const ready = new Map<number, ReadyJobs>()
  const turns = new Map<number, number>()
  const empty: Array<Lane> = []
  const settled = new Map<number, number | null>()
  const taken: ClaimInProgress = { claims: [], moves: [], abandoned: [] }
  // Without others and limits, the claim takes all that it may from one lane.
  const firstPage = order.isAlone && !isLimiting(request.limits) ? request.limit + 1 : 2
  let more = false
  for (let lane = order.take(); lane !== undefined && !more; lane = order.take()) {
    const jobs = ready.get(lane.id) ?? new ReadyJobs(tx, lane, firstPage)
    ready.set(lane.id, jobs)
    const outcome = serve(tx, jobs, request, taken)
    if (outcome === "empty") empty.push(lane)
    else if (outcome === "enough") more = true
    else {
      running.add(lane, tx.now + outcome.leaseRemainingMs, tx.now)
      turns.set(lane.id, order.serve(lane).turn)
    }
  }
  writeClaims(tx, taken.moves, leaseOf(request))
  // Their leases decide when the lanes have something again.
  for (const lane of empty) settled.set(lane.id, settleLane(tx, lane, turns.get(lane.id)))
  for (const [id, turn] of turns) if (!settled.has(id)) tx.run(setTurn, { id, turn })
  if (taken.claims.length > 0) tx.run(setClock, { clock: order.clock })
  const { abandoned, claims } = taken
  const known = { times: order.times, settled }
  const next = more ? 0 : nextInMs(tx, request.runnable, running, known)
  // Last: the end of a job may wake another one, which is for the next claim, as on every store.
  for (const { from, to } of abandoned)
    if (!writeState(tx, from, to)) throw new TypeError(`${from.id} cannot be abandoned`)
  return { claims, abandoned: abandoned.map(({ from }) => from.id), nextInMs: next }
}

/** At least a millisecond: a job without a lease would be claimable again at once. */
const leaseOf = ({ leaseDurationMs }: ClaimRequest): number => Math.max(1, Math.ceil(leaseDurationMs))

/** The jobs that one claim takes. Its moves are written together, at the end. */
interface ClaimInProgress {
  readonly claims: Array<Claim>
  readonly moves: Array<Move>
  readonly abandoned: Array<Move>
}

/** Claims the first job of a lane. Jobs before it that lost their last worker fail, and take no turn. */
const serve = (
  tx: Transaction,
  jobs: ReadyJobs,
  request: ClaimRequest,
  { abandoned, claims, moves }: ClaimInProgress,
): Claim | "empty" | "enough" => {
  // One more than it may claim: whether there is more to claim is part of the result.
  const atMost = Math.max(1, request.limit - claims.length + 1)
  for (let row = jobs.peek(atMost); row !== undefined; row = jobs.peek(atMost)) {
    if (claims.length >= request.limit) return "enough"
    jobs.drop()
    const state = stateOf(row)
    if (lostTooMany(state, request.maxLostWorkers)) {
      const failed = applyEvent(state, { event: "abandoned" }, tx.now)
      if (failed === undefined) throw new TypeError(`${row.id} cannot be abandoned`)
      abandoned.push({ from: row, to: failed })
    } else {
      const claimed = applyEvent(state, { event: "claimed", leaseDurationMs: leaseOf(request) }, tx.now)
      if (claimed === undefined) throw new TypeError(`${row.id} cannot be claimed`)
      const claim = claimOf(tx, row, claimed)
      claims.push(claim)
      moves.push({ from: row, to: claimed })
      return claim
    }
  }
  return "empty"
}

const claimOf = (tx: Transaction, row: JobRow, claimed: JobState): Claim => {
  try {
    const job = jobOf(tx, row, claimed)
    return {
      job,
      token: job.token,
      leaseRemainingMs: (job.claimableAt ?? tx.now) - tx.now,
      upload: job.uploadId === null ? null : (findUpload(tx, job.uploadId) ?? null),
    }
  } catch (error) {
    throw error instanceof UndecodableRow || isCorrupt(error) ? new UnreadableJob(row.id, error) : error
  }
}

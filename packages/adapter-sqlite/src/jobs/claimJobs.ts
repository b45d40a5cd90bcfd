import { sql } from "kysely"
import { applyEvent, type JobId, lostTooMany } from "@kiln/core/domain"
import { type Claim, type ClaimRequest, type ClaimResult, UndecodableRow } from "@kiln/core/ports"
import type { Values } from "../columns.ts"
import { isCorrupt } from "../sqliteErrors.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { findUpload } from "../uploads.ts"
import { jobBySeq, jobOf, type JobRow, selectJobs, stateColumns, stateOf } from "./JobRow.ts"
import { type Lane, LaneOrder } from "./laneOrder.ts"
import { nextInMs, normalOnly, ranks, settleLane } from "./nextClaimable.ts"
import { countRunning } from "./runningJobs.ts"
import { UnreadableJob } from "./unreadableJobs.ts"
import { writeState } from "./writeState.ts"

type Ready = { readonly laneId: number; readonly rank: number; readonly now: number; readonly limit: number }

/**
 * The first claimable jobs of a lane and priority, in the order of the index of ready jobs. Overdue jobs are left to the sweep. The
 * plus keeps the planner from starting at the index of deadlines.
 */
export const claimableJobs = statement((given: Given<Ready>) =>
  selectJobs
    .where("jobs.lane_id", "=", given.laneId)
    .where("jobs.priority", "=", given.rank)
    .where("jobs.claimable_at", "<=", given.now)
    .where(sql<number>`+deadline_at`, ">", given.now)
    .orderBy("jobs.claimable_at")
    .orderBy("jobs.id")
    .limit(given.limit),
)

/** The same jobs without the data that may be on corrupt pages. */
export const claimableStates = statement((given: Given<Ready>) =>
  query
    .selectFrom("jobs")
    .select(stateColumns)
    .where("lane_id", "=", given.laneId)
    .where("priority", "=", given.rank)
    .where("claimable_at", "<=", given.now)
    .where(sql<number>`+deadline_at`, ">", given.now)
    .orderBy("claimable_at")
    .orderBy("id")
    .limit(given.limit),
)

const setTurn = statement((given: Given<Values<"lanes", "id"> & { readonly turn: number }>) =>
  query.updateTable("lanes").set({ virtual_time: given.turn }).where("id", "=", given.id),
)

const setClock = statement((given: Given<{ readonly clock: number }>) =>
  query.updateTable("fairness").set({ virtual_time: given.clock }),
)

/** Claimable jobs of a lane, one priority after the other. Pages double, since most claims take one job per lane or all of one. */
class ReadyJobs {
  readonly #tx: Transaction
  readonly #laneId: number
  #rows: ReadonlyArray<JobRow> = []
  #next = 0
  #limit = 2
  #ranks: ReadonlyArray<number>

  constructor(tx: Transaction, lane: Lane) {
    this.#tx = tx
    this.#laneId = lane.id
    this.#ranks = lane.prioritized ? ranks : normalOnly
  }

  /** Returns the next job. Jobs of earlier pages were claimed or failed, so the index no longer holds them. */
  peek(atMost: number): JobRow | undefined {
    while (this.#next === this.#rows.length) {
      const [rank, ...others] = this.#ranks
      if (rank === undefined) return undefined
      const limit = Math.min(this.#limit, atMost)
      this.#rows = this.#read({ laneId: this.#laneId, rank, now: this.#tx.now, limit })
      this.#next = 0
      if (this.#rows.length < limit) this.#ranks = others
      else this.#limit *= 2
    }
    return this.#rows[this.#next]
  }

  drop(): void {
    this.#next += 1
  }

  #read(ready: Ready): ReadonlyArray<JobRow> {
    try {
      return this.#tx.all(claimableJobs, ready)
    } catch (error) {
      throw isCorrupt(error) ? this.#unreadable(ready, error) : error
    }
  }

  /** Finds the job that caused the error, by reading one at a time. */
  #unreadable(ready: Ready, error: unknown): unknown {
    for (const { id, seq } of this.#tx.all(claimableStates, ready)) {
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

/**
 * Serves lane after lane, one job per turn, up to the limit. A lane that turns out to be empty gets a new `next_at`, so the next
 * claim skips it; a lane at its limit keeps its own.
 */
export const claimJobs = (tx: Transaction, request: ClaimRequest): ClaimResult => {
  const running = countRunning(tx, request)
  const order = new LaneOrder(tx, request.runnable, running)
  const ready = new Map<number, ReadyJobs>()
  const turns = new Map<number, number>()
  const claims: Array<Claim> = []
  const abandoned: Array<JobId> = []
  let more = false
  for (let lane = order.take(); lane !== undefined && !more; lane = order.take()) {
    const jobs = ready.get(lane.id) ?? new ReadyJobs(tx, lane)
    ready.set(lane.id, jobs)
    const outcome = serve(tx, jobs, request, claims.length, abandoned)
    if (outcome === "empty") settleLane(tx, lane.id)
    else if (outcome === "enough") more = true
    else {
      claims.push(outcome)
      running.add(lane, tx.now + outcome.leaseRemainingMs, tx.now)
      turns.set(lane.id, order.serve(lane).turn)
    }
  }
  for (const [id, turn] of turns) tx.run(setTurn, { id, turn })
  if (claims.length > 0) tx.run(setClock, { clock: order.clock })
  return { claims, abandoned, nextInMs: more ? 0 : nextInMs(tx, request.runnable, running) }
}

/** Claims the first job of a lane. Jobs before it that lost their last worker fail, and take no turn. */
const serve = (
  tx: Transaction,
  jobs: ReadyJobs,
  request: ClaimRequest,
  claimed: number,
  abandoned: Array<JobId>,
): Claim | "empty" | "enough" => {
  // One more than it may claim: whether there is more to claim is part of the result.
  const atMost = Math.max(1, request.limit - claimed + 1)
  for (let row = jobs.peek(atMost); row !== undefined; row = jobs.peek(atMost)) {
    if (claimed >= request.limit) return "enough"
    jobs.drop()
    const state = stateOf(row)
    if (lostTooMany(state, request.maxLostWorkers)) {
      const failed = applyEvent(state, { event: "abandoned" }, tx.now)
      if (failed === undefined || !writeState(tx, row, failed)) throw new TypeError(`${row.id} cannot be abandoned`)
      abandoned.push(row.id)
    } else {
      // At least a millisecond: without a lease, this claim would find the job claimable again.
      return claimJob(tx, row, Math.max(1, Math.ceil(request.leaseDurationMs)))
    }
  }
  return "empty"
}

const claimJob = (tx: Transaction, row: JobRow, leaseDurationMs: number): Claim => {
  const claimed = applyEvent(stateOf(row), { event: "claimed", leaseDurationMs }, tx.now)
  if (claimed === undefined || !writeState(tx, row, claimed)) throw new TypeError(`${row.id} cannot be claimed`)
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

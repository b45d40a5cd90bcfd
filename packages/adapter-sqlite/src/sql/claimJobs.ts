import { sql } from "kysely"
import { applyEvent, type JobId, lostTooMany } from "@kiln/core/domain"
import type { Claim, ClaimRequest, ClaimResult } from "@kiln/core/ports"
import { UndecodableRow } from "@kiln/core/ports"
import { jobBySeq, jobOf, stateColumns, stateOf, type StateRow } from "../JobRow.ts"
import { isCorrupt } from "../sqliteErrors.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { uploadById, uploadOf } from "../UploadRow.ts"
import { loadInHand } from "./inHand.ts"
import { type Lane, LaneOrder } from "./laneOrder.ts"
import { nextInMs, settleLane } from "./nextClaimable.ts"
import { normalOnly, ranks } from "./ranks.ts"
import { UnreadableJob } from "./failUnreadable.ts"
import { writeState } from "./writeState.ts"

/**
 * The head of a lane among jobs of one priority, straight from the index of ready jobs. Overdue ones are the sweep's: their
 * column stands behind a plus, which keeps the planner from starting at the index of deadlines.
 */
export const claimableJobs = statement((given: Given<{ laneId: number; rank: number; now: number; limit: number }>) =>
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

const setTurn = statement((given: Given<{ id: number; turn: number }>) =>
  query.updateTable("lanes").set({ virtual_time: given.turn }).where("id", "=", given.id),
)

const setClock = statement((given: Given<{ clock: number }>) =>
  query.updateTable("fairness").set({ virtual_time: given.clock }),
)

/**
 * A lane's claimable jobs, one priority after the other, read in growing steps: most lanes give one, a single lane gives all.
 * Each walk begins where jobs are claimable, so that those of a higher priority that are not yet, delayed or held ones, are
 * nowhere in the way.
 */
class Head {
  readonly #tx: Transaction
  readonly #laneId: number
  #rows: ReadonlyArray<StateRow> = []
  #next = 0
  #limit = 2
  #ranks: ReadonlyArray<number>

  constructor(tx: Transaction, lane: Lane) {
    this.#tx = tx
    this.#laneId = lane.id
    this.#ranks = lane.prioritized ? ranks : normalOnly
  }

  /** The job whose turn it is. Those taken before were claimed or failed, so the index no longer shows them. */
  peek(): StateRow | undefined {
    while (this.#next === this.#rows.length) {
      const [rank, ...others] = this.#ranks
      if (rank === undefined) return undefined
      this.#rows = this.#tx.all(claimableJobs, {
        laneId: this.#laneId,
        rank,
        now: this.#tx.now,
        limit: this.#limit,
      })
      this.#next = 0
      if (this.#rows.length < this.#limit) this.#ranks = others
      else this.#limit *= 2
    }
    return this.#rows[this.#next]
  }

  drop(): void {
    this.#next += 1
  }
}

/**
 * Serves lane after lane, one job at a turn, until there are enough. A lane that turns out empty
 * gets its new `next_at`, and so is out of the way of the next claim; one at its limit keeps it.
 */
export const claimJobs = (tx: Transaction, request: ClaimRequest): ClaimResult => {
  const inHand = loadInHand(tx, request)
  const order = new LaneOrder(tx, request.runnable, inHand)
  const heads = new Map<number, Head>()
  const turns = new Map<number, number>()
  const claims: Array<Claim> = []
  const abandoned: Array<JobId> = []
  let more = false
  for (let lane = order.take(); lane !== undefined && !more; lane = order.take()) {
    const head = heads.get(lane.id) ?? new Head(tx, lane)
    heads.set(lane.id, head)
    const fate = serve(tx, head, request, claims.length, abandoned)
    if (fate === "empty") settleLane(tx, lane.id)
    else if (fate === "enough") more = true
    else {
      claims.push(fate)
      inHand.add(lane, tx.now + fate.leaseRemainingMs, tx.now)
      turns.set(lane.id, order.serve(lane).turn)
    }
  }
  for (const [id, turn] of turns) tx.run(setTurn, { id, turn })
  if (claims.length > 0) tx.run(setClock, { clock: order.clock })
  return { claims, abandoned, nextInMs: more ? 0 : nextInMs(tx, request.runnable, inHand) }
}

/** Claims a lane's first job, failing those before it that lost their last worker. They take no turn. */
const serve = (
  tx: Transaction,
  head: Head,
  request: ClaimRequest,
  claimed: number,
  abandoned: Array<JobId>,
): Claim | "empty" | "enough" => {
  for (let row = head.peek(); row !== undefined; row = head.peek()) {
    if (claimed >= request.limit) return "enough"
    head.drop()
    const state = stateOf(row)
    if (lostTooMany(state, request.maxLostWorkers)) {
      const failed = applyEvent(state, { event: "abandoned" }, tx.now)
      if (failed === undefined || !writeState(tx, row, failed)) throw new TypeError(`${row.id} cannot be abandoned`)
      abandoned.push(row.id)
    } else {
      // At least a millisecond: without a lease, this very claim would find the job claimable again.
      return claimJob(tx, row, Math.max(1, Math.ceil(request.leaseDurationMs)))
    }
  }
  return "empty"
}

const claimJob = (tx: Transaction, row: StateRow, leaseDurationMs: number): Claim => {
  const claimed = applyEvent(stateOf(row), { event: "claimed", leaseDurationMs }, tx.now)
  if (claimed === undefined || !writeState(tx, row, claimed)) throw new TypeError(`${row.id} cannot be claimed`)
  try {
    return readClaim(tx, row.seq)
  } catch (error) {
    throw error instanceof UndecodableRow || isCorrupt(error) ? new UnreadableJob(row.id, error) : error
  }
}

const readClaim = (tx: Transaction, seq: number): Claim => {
  const row = tx.get(jobBySeq, { seq })
  if (row === undefined) throw new UndecodableRow(`job row ${seq} is gone`)
  const job = jobOf(tx, row)
  const upload = job.uploadId === null ? undefined : tx.get(uploadById, { id: job.uploadId })
  return {
    job,
    token: job.token,
    leaseRemainingMs: (job.claimableAt ?? tx.now) - tx.now,
    upload: upload === undefined ? null : uploadOf(upload),
  }
}

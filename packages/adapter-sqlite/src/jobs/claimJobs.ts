import { applyEvent, isLimiting, type JobState, lostTooMany } from "@kiln/core/domain"
import type { Claim, ClaimRequest, ClaimResult } from "@kiln/core/ports"
import { UndecodableRow } from "@kiln/sql-store"
import type { Values } from "../columns.ts"
import { isCorrupt } from "../sqliteErrors.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { findUpload } from "../uploads.ts"
import { jobOf, type JobRow, stateOf } from "./JobRow.ts"
import { type Lane, LaneOrder } from "./laneOrder.ts"
import { nextInMs, settleLane } from "./nextClaimable.ts"
import { ReadyJobs } from "./readyJobs.ts"
import { countRunning } from "./runningJobs.ts"
import { UnreadableJob } from "./unreadableJobs.ts"
import { type Move, writeClaims, writeState } from "./writeState.ts"

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

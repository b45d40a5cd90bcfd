import { sql } from "kysely"
import { applyEvent, type InHand, type JobId, lostTooMany, priorities, priorityRank } from "@kiln/core/domain"
import { type Claim, type ClaimRequest, UndecodableRow } from "@kiln/core/ports"
import { jobOf, jobsBySeq, stateColumns, stateOf, type StateRow } from "./jobRow.ts"
import type { Session, Transaction } from "../Session.ts"
import { finishJobs, lockedJobs, type Move, moveJobs, withoutResult } from "./writeStates.ts"
import type { LaneNotes, LanesAfter, Served } from "./LanePositions.ts"
import { isCorrupt } from "../postgresErrors.ts"
import { batchStatement, query } from "../Statement.ts"
import { uploadOf, uploadsOfJobs } from "../uploads/uploadRow.ts"
import { loadInHand } from "./laneOrder.ts"
import { type Lane, type LanesFound, lanesWithWork, shareTurns } from "./laneOrder.ts"

/** The job whose turn it was cannot be read: a damaged row, or a corrupt page. */
export class UnreadableJob extends Error {
  override readonly name = "UnreadableJob"
  readonly jobId: JobId
  constructor(jobId: JobId, cause: unknown) {
    super(`${jobId} cannot be read`, { cause })
    this.jobId = jobId
  }
}

/**
 * Such a job would come back for ever, to every worker, and hold up its lane. It fails without being
 * read, as if it had been claimed; what else is stored is not its business. In a transaction of its
 * own, because the one that met it is rolled back.
 */
export const failUnreadable = async (tx: Transaction, jobId: JobId): Promise<void> => {
  const [from] = await lockedJobs(tx, [{ jobId }])
  const claimed = from && applyEvent(stateOf(from), { event: "claimed", leaseDurationMs: 1 }, tx.now)
  const to =
    claimed && applyEvent(claimed, { event: "failed", token: claimed.token, errorCode: "internal_error" }, tx.now)
  // Somebody else may have done it meanwhile.
  if (from !== undefined && to !== undefined) await finishJobs(tx, [withoutResult({ from, to })])
}

/** Lanes read at a time, at least. Each gives a job as a rule; some turn out empty. */
const pageSize = 32

/** What is served first comes first. */
const ranks = sql<{ rank: number }>`(values ${sql.join(
  priorities.map((priority) => sql`(${sql.lit(priorityRank[priority])}::smallint)`),
)})`.as<"step">(sql`step(rank)`)

/**
 * The heads of lanes, straight from the index of what is ready, locked as they are read. What another claim has in hand is
 * passed over, not waited for. It begins at the lane's floor: below it are only rows that are gone and not vacuumed yet,
 * of which an old snapshot anywhere in the database may keep a great many.
 *
 * A rank is asked only for what those before it left of the count: a nested loop goes through a list of values in its order, and no further
 * than its limit. To sort it below that limit would lock what is not taken.
 */
export const lockHeads = batchStatement<{ laneId: number; floor: number; count: number }, { now: number }, StateRow>(
  { laneId: "bigint", floor: "bigint", count: "bigint" },
  (item, given) =>
    query
      .selectFrom(item)
      .innerJoinLateral(
        (from) =>
          from
            .selectFrom(ranks)
            .innerJoinLateral(
              (inRank) =>
                inRank
                  .selectFrom("queue")
                  .select(stateColumns)
                  .whereRef("queue.lane_id", "=", sql`${sql.ref("item.laneId")}`)
                  .whereRef("queue.priority", "=", "step.rank")
                  .whereRef("queue.claimable_at", ">=", sql`${sql.ref("item.floor")}`)
                  .where("queue.claimable_at", "<=", given.now)
                  .where("queue.deadline_at", ">", given.now)
                  .orderBy("queue.claimable_at")
                  .orderBy("queue.id")
                  .limit(sql<number>`${sql.ref("item.count")}`)
                  .forUpdate()
                  .skipLocked()
                  .as("ready"),
              (join) => join.onTrue(),
            )
            .selectAll("ready")
            .select("step.rank")
            .limit(sql<number>`${sql.ref("item.count")}`)
            .as("head"),
        (join) => join.onTrue(),
      )
      .selectAll("head")
      .orderBy("item.ord")
      .orderBy("head.rank", "desc")
      .orderBy("head.claimableAt")
      .orderBy("head.id"),
)

/** What a claim did, and what is to be noted about the lanes once it is committed. */
export interface Claimed extends LanesAfter {
  readonly claims: ReadonlyArray<Claim>
  readonly abandoned: ReadonlyArray<JobId>
  readonly inHand: InHand
  /** Store time, unix milliseconds. */
  readonly claimedAt: number
}

/** One claim under way. */
interface Round {
  readonly tx: Transaction
  readonly request: ClaimRequest
  readonly inHand: InHand
  readonly picked: Array<{ readonly turn: number; readonly laneId: number; readonly move: Move }>
  readonly abandoned: Array<JobId>
  /** Sent, and not waited for: what is sent after them sees what they wrote. */
  readonly writes: Array<Promise<void>>
}

/** What a claim begins with: what is in hand, where there are limits, and the lanes that may have something. */
export interface OpenedClaim {
  readonly inHand: InHand
  readonly found: LanesFound
  /** Those behind them, when all that were found have nothing: something may be being added to each of them for minutes. */
  readonly next: (session: Session, visited: ReadonlySet<number>) => Promise<LanesFound>
}

export const openClaim = async (session: Session, request: ClaimRequest, notes: LaneNotes): Promise<OpenedClaim> => {
  const inHand = await loadInHand(session, request)
  const limit = Math.max(pageSize, request.limit)
  const among = { runnable: request.runnable, notes }
  return {
    inHand,
    found: await lanesWithWork(session, among, limit, inHand, []),
    next: (later, visited) => lanesWithWork(later, among, limit, inHand, [...visited]),
  }
}

/**
 * Serves lane after lane, one job at a turn, until there are enough. Turns are shared out as if every lane had jobs enough;
 * lanes that had fewer drop out, and what they left is shared out again. The outcome is that of serving one by one.
 */
export const claimJobs = async (
  tx: Transaction,
  request: ClaimRequest,
  { found, inHand, next }: OpenedClaim,
): Promise<Claimed> => {
  const round: Round = { tx, request, inHand, picked: [], abandoned: [], writes: [] }
  const served = new Map<number, Served>()
  const visited = new Set<number>()
  const exhausted = new Set<number>()
  let { lanes, more } = found
  try {
    while (round.picked.length < request.limit && lanes.length > 0) {
      const shares = shareTurns(lanes, request.limit - round.picked.length, inHand.copy())
      if (shares.length === 0) break
      for (const { lane } of shares) {
        visited.add(lane.id)
        if (!served.has(lane.id)) served.set(lane.id, { id: lane.id, start: lane.turn, count: 0 })
      }
      for (const id of await serve(round, shares)) exhausted.add(id)
      lanes = lanes.filter(({ id }) => !exhausted.has(id))
      if (lanes.length === 0 && more) ({ lanes, more } = await next(tx, visited))
    }
  } catch (error) {
    // What fails after a write that failed says only that the transaction is over: the first cause is that of the write.
    await Promise.all(round.writes)
    throw error
  }
  round.picked.sort((a, b) => a.turn - b.turn || a.laneId - b.laneId)
  for (const { laneId } of round.picked) (served.get(laneId) ?? { count: 0 }).count += 1
  const reading = readClaims(
    tx,
    round.picked.map(({ move }) => move),
  )
  reading.catch(() => undefined)
  await Promise.all(round.writes)
  const claims = await reading
  return {
    claims,
    abandoned: round.abandoned,
    served: [...served.values()],
    visited: [...visited],
    exhausted,
    clock: round.picked.at(-1)?.turn ?? found.clock,
    inHand,
    claimedAt: tx.now,
  }
}

/** Gives lanes their shares; the ones that had less are returned. */
const serve = async (
  { abandoned, inHand, picked, request, tx, writes }: Round,
  shares: ReadonlyArray<{ readonly lane: Lane; readonly count: number }>,
): Promise<ReadonlySet<number>> => {
  const heads = await tx.batch(
    lockHeads,
    shares.map(({ count, lane: { floor, id: laneId } }) => ({ laneId, floor, count })),
    { now: tx.now },
  )
  // At least a millisecond: without a lease, this very claim would find the job claimable again.
  const leaseDurationMs = Math.max(1, Math.ceil(request.leaseDurationMs))
  const rows = Map.groupBy(heads, ({ laneId }) => laneId)
  const claimed: Array<Move> = []
  const failed: Array<Move> = []
  for (const { lane } of shares)
    for (const from of rows.get(lane.id) ?? []) {
      const abandons = lostTooMany(from, request.maxLostWorkers)
      const to = applyEvent(
        stateOf(from),
        abandons ? { event: "abandoned" } : { event: "claimed", leaseDurationMs },
        tx.now,
      )
      if (to === undefined) throw new TypeError(`${from.id} cannot be claimed`)
      if (abandons) {
        failed.push({ from, to })
        abandoned.push(from.id)
      } else {
        claimed.push({ from, to })
        picked.push({ turn: lane.turn, laneId: lane.id, move: { from, to } })
        lane.turn += 1
        inHand.add(lane, to.claimableAt ?? tx.now, tx.now)
      }
    }
  for (const write of [moveJobs(tx, claimed), finishJobs(tx, failed.map(withoutResult))]) {
    // It is waited for in the end; until then nobody else hears of its failure.
    write.catch(() => undefined)
    writes.push(write)
  }
  return new Set(shares.flatMap(({ count, lane }) => ((rows.get(lane.id)?.length ?? 0) < count ? [lane.id] : [])))
}

/**
 * Reads what was claimed. A page that cannot be read ends the transaction, and says nothing of whose it is: that a claim of a
 * single job can tell.
 */
const readClaims = async (tx: Transaction, moves: ReadonlyArray<Move>): Promise<ReadonlyArray<Claim>> => {
  const seqs = moves.map(({ from: { seq } }) => ({ seq }))
  const [jobs, uploads] = await Promise.all([tx.batch(jobsBySeq, seqs, {}), tx.batch(uploadsOfJobs, seqs, {})]).catch(
    (error: unknown) => {
      const [only, ...others] = moves
      const isKnown = isCorrupt(error) && only !== undefined && others.length === 0
      throw isKnown ? new UnreadableJob(only.from.id, error) : error
    },
  )
  const rows = new Map(jobs.map((row) => [row.seq, row]))
  const uploadOfJob = new Map(uploads.map((row) => [row.jobId, uploadOf(row)]))
  return moves.map(({ from: { id, seq } }) => {
    try {
      const row = rows.get(seq)
      if (row === undefined) throw new UndecodableRow(`job row ${seq} is gone`)
      const job = jobOf(row)
      return {
        job,
        token: job.token,
        leaseRemainingMs: (job.claimableAt ?? tx.now) - tx.now,
        upload: uploadOfJob.get(job.id) ?? null,
      }
    } catch (error) {
      throw error instanceof UndecodableRow ? new UnreadableJob(id, error) : error
    }
  })
}

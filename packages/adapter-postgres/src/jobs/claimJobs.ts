import { sql } from "kysely"
import { applyEvent, type JobsInProgress, type JobId, lostTooMany } from "@kiln/core/domain"
import { type Claim, type ClaimRequest, UndecodableRow } from "@kiln/core/ports"
import { jobOf, jobsBySeq, stateColumns, stateOf, type StateRow } from "./jobRow.ts"
import type { Session, Transaction } from "../Session.ts"
import { lockedJobs } from "./lockJobs.ts"
import { finishJobs, type Move, moveJobs, withoutResult } from "./writeStates.ts"
import type { LanePositions, ClaimedLanes, Served } from "./LanePositions.ts"
import { isCorrupt } from "../postgresErrors.ts"
import { ranksOf } from "../migrations/initial/ranks.ts"
import { batchStatement, hidden, plenty, query } from "../Statement.ts"
import { uploadOf, uploadsOfJobs } from "../uploads/uploadRow.ts"
import { countHeldJobs } from "./laneOrder.ts"
import { type Lane, type LanesFound, lanesWithWork, shareTurns } from "./laneOrder.ts"

/** The job to be claimed cannot be read: a damaged row or a corrupt page. */
export class UnreadableJob extends Error {
  override readonly name = "UnreadableJob"
  readonly jobId: JobId
  constructor(jobId: JobId, cause: unknown) {
    super(`${jobId} cannot be read`, { cause })
    this.jobId = jobId
  }
}

/** Fails unreadable jobs that a claim of this process holds. */
export const failHeld = async (
  tx: Transaction,
  claims: ReadonlyArray<{ readonly jobId: JobId; readonly token: number }>,
): Promise<void> => {
  const tokens = new Map(claims.map(({ jobId, token }) => [jobId, token]))
  const moves = (await lockedJobs(tx, claims)).flatMap((from) => {
    const token = tokens.get(from.id) ?? from.token
    const to = applyEvent(stateOf(from), { event: "failed", token, errorCode: "internal_error" }, tx.now)
    return to === undefined ? [] : [withoutResult({ from, to })]
  })
  await finishJobs(tx, moves)
}

/**
 * Fails an unreadable job without reading it, as if it had been claimed. Otherwise every worker would claim it again and again,
 * and it would block its lane. Runs in a transaction of its own, because the one that found it is rolled back.
 */
export const failUnreadable = async (tx: Transaction, jobId: JobId): Promise<void> => {
  const [from] = await lockedJobs(tx, [{ jobId }])
  const claimed = from && applyEvent(stateOf(from), { event: "claimed", leaseDurationMs: 1 }, tx.now)
  const to =
    claimed && applyEvent(claimed, { event: "failed", token: claimed.token, errorCode: "internal_error" }, tx.now)
  // Another process may have failed it already.
  if (from !== undefined && to !== undefined) await finishJobs(tx, [withoutResult({ from, to })])
}

/** Returns the number of lanes read at a time. Most have a job; some turn out empty. */
export const pageOfLanes = ({ limit }: Pick<ClaimRequest, "limit">): number => Math.max(32, limit)

/** The ranks that a lane may have jobs of, highest first. */
const ranks = sql<{ rank: number }>`${sql.raw(ranksOf('"item"."laneId"', '"item"."floor"'))}`.as<"step">(sql`step`)

/**
 * Reads and locks the first jobs of lanes, straight from the index. Jobs locked by another claim are skipped. The search starts
 * at the lane's floor: below it are only dead rows, of which an old snapshot may keep many.
 *
 * Each rank is read only for what the ranks before it left of the count: a nested loop reads a list of values in its order and
 * stops at the limit. Sorting below that limit would lock jobs that are not taken.
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
                  .innerJoin(plenty, (join) => join.onTrue())
                  .select(stateColumns)
                  .whereRef("queue.lane_id", "=", sql`${sql.ref("item.laneId")}`)
                  .whereRef("queue.priority", "=", "step.rank")
                  .whereRef("queue.claimable_at", ">=", sql`${sql.ref("item.floor")}`)
                  .where("queue.claimable_at", "<=", hidden(given.now))
                  .where("queue.deadline_at", ">", hidden(given.now))
                  .orderBy("queue.claimable_at")
                  .orderBy("queue.id")
                  .limit(sql<number>`${sql.ref("item.count")}`)
                  .forUpdate("queue")
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

/** The result of a claim, and what to save about its lanes after the commit. */
export interface Claimed extends ClaimedLanes {
  readonly claims: ReadonlyArray<Claim>
  readonly abandoned: ReadonlyArray<JobId>
  readonly inProgress: JobsInProgress
  /** Store time, unix milliseconds. */
  readonly claimedAt: number
}

/** A claim in progress. */
interface Round {
  readonly tx: Transaction
  readonly request: ClaimRequest
  readonly inProgress: JobsInProgress
  readonly picked: Array<{ readonly turn: number; readonly laneId: number; readonly move: Move }>
  readonly abandoned: Array<JobId>
  /** Statements that were sent and not awaited; later statements see their changes. */
  readonly writes: Array<Promise<void>>
}

/** The start of a claim: held jobs, if there are limits, and the lanes that may have claimable jobs. */
export interface OpenedClaim {
  readonly inProgress: JobsInProgress
  readonly found: LanesFound
  /** Finds more lanes when the first ones are empty: transactions may be adding to them for minutes. */
  readonly next: (session: Session, visited: ReadonlySet<number>) => Promise<LanesFound>
}

export const openClaim = async (
  session: Session,
  request: ClaimRequest,
  positions: LanePositions,
): Promise<OpenedClaim> => {
  const inProgress = await countHeldJobs(session, request)
  const limit = pageOfLanes(request)
  const among = { runnable: request.runnable, positions }
  return {
    inProgress,
    found: await lanesWithWork(session, among, limit, inProgress, []),
    next: (later, visited) => lanesWithWork(later, among, limit, inProgress, [...visited]),
  }
}

/** Whether a job can count towards the limit or rate of a kind and the limit of a project. */
const limitsCross = ({ limits: { perKind, perProject, projects = {} }, worker }: ClaimRequest): boolean => {
  const limitsKinds = Object.keys(perKind).length > 0 || (worker?.quotas ?? []).length > 0
  return limitsKinds && (perProject > 0 || (worker?.perProject ?? 0) > 0 || Object.keys(projects).length > 0)
}

/**
 * Serves lanes in turn, one job each, until the limit is reached. Turns are distributed as if every lane had enough jobs; lanes
 * with fewer drop out, and the remaining turns are distributed again. The result is the same as serving one by one.
 */
export const claimJobs = async (
  tx: Transaction,
  request: ClaimRequest,
  { found, inProgress, next }: OpenedClaim,
): Promise<Claimed> => {
  const round: Round = { tx, request, inProgress, picked: [], abandoned: [], writes: [] }
  const served = new Map<number, Served>()
  const visited = new Set<number>()
  const exhausted = new Set<number>()
  let { lanes, more } = found
  try {
    while (round.picked.length < request.limit && lanes.length > 0) {
      const shares = shareTurns(lanes, request.limit - round.picked.length, inProgress, limitsCross(request))
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
    // A statement after a failed write fails only because the transaction is aborted; the write's error is the cause.
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
    inProgress,
    claimedAt: tx.now,
  }
}

/** Claims each lane's share; returns the lanes that had fewer jobs. */
const serve = async (
  { abandoned, inProgress, picked, request, tx, writes }: Round,
  shares: ReadonlyArray<{ readonly lane: Lane; readonly count: number }>,
): Promise<ReadonlySet<number>> => {
  const heads = await tx.batch(
    lockHeads,
    shares.map(({ count, lane: { floor, id: laneId } }) => ({ laneId, floor, count })),
    { now: tx.now },
  )
  // At least a millisecond: without a lease, this claim would find the job claimable again.
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
        inProgress.add(lane, to.claimableAt ?? tx.now, tx.now)
      }
    }
  for (const write of [moveJobs(tx, claimed), finishJobs(tx, failed.map(withoutResult))]) {
    // It is awaited at the end, where its failure is reported.
    write.catch(() => undefined)
    writes.push(write)
  }
  return new Set(shares.flatMap(({ count, lane }) => ((rows.get(lane.id)?.length ?? 0) < count ? [lane.id] : [])))
}

/**
 * Reads the claimed jobs. A corrupt page aborts the transaction without naming the job, which only a claim of a single job
 * identifies.
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

import { sql } from "kysely"
import type { JobState, JobStatus, JsonObject } from "@kiln/core/domain"
import { assign, type Flag, type Values } from "../columns.ts"
import { type Given, listStatement, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import type { StateRow } from "./JobRow.ts"

type Moving =
  | "status"
  | "held"
  | "token"
  | "claimable_at"
  | "deadline_at"
  | "phase_started_at"
  | "ran_ms"
  | "waited_ms"
  | "attempts"
  | "failures"
  | "lost_workers"

type From = Values<"jobs", "seq"> & {
  readonly fromStatus: JobStatus
  readonly fromHeld: Flag
  readonly fromToken: number
}

/** The state a move was computed from is in the WHERE: status, held and token are the fence of a stale attempt. */
const jobAsRead = (given: Given<From>) =>
  query
    .updateTable("jobs")
    .where("seq", "=", given.seq)
    .where("status", "=", given.fromStatus)
    .where("held", "=", given.fromHeld)
    .where("token", "=", given.fromToken)

const moving = (given: Given<Values<"jobs", Moving>>) => ({
  ...assign(given, "status", "held", "token", "claimable_at", "deadline_at", "phase_started_at"),
  ...assign(given, "ran_ms", "waited_ms", "attempts", "failures", "lost_workers"),
})

/** Moves that leave a job unfinished. Without the columns of finished jobs, whose triggers and index then cost nothing. */
export const updateUnfinished = statement((given: Given<From & Values<"jobs", Moving>>) =>
  jobAsRead(given).set(moving(given)),
)

/** Moves that end a job, except its completion. */
export const updateFinished = statement((given: Given<From & Values<"jobs", Moving | "finished_at" | "error_code">>) =>
  jobAsRead(given).set({ ...moving(given), ...assign(given, "finished_at", "error_code") }),
)

/** The same, with what a failed job tells its caller. */
const updateFailed = statement(
  (given: Given<From & Values<"jobs", Moving | "finished_at" | "error_code" | "output">>) =>
    jobAsRead(given).set({ ...moving(given), ...assign(given, "finished_at", "error_code", "output") }),
)

/**
 * Writes every move except `extended` and `completed`. Returns false if the job is no longer in the state of `from`. `output` is what
 * a job that fails tells its caller.
 */
export const writeState = (tx: Transaction, from: StateRow, to: JobState, output?: JsonObject): boolean => {
  const unfinished = {
    ...to,
    seq: from.seq,
    fromStatus: from.status,
    fromHeld: from.held,
    fromToken: from.token,
    held: to.held ? (1 as const) : (0 as const),
  }
  if (to.finishedAt === null) return tx.run(updateUnfinished, unfinished) === 1
  const finished = { ...unfinished, finishedAt: to.finishedAt, errorCode: to.errorCode }
  return output === undefined
    ? tx.run(updateFinished, finished) === 1
    : tx.run(updateFailed, { ...finished, output: JSON.stringify(output) }) === 1
}

/** A row as it was read, and the state it moves to. */
export interface Move {
  readonly from: StateRow
  readonly to: JobState
}

type ClaimValues = { readonly seqs: string; readonly now: number; readonly leaseDurationMs: number }

/**
 * Claims jobs that nobody holds, given as a JSON list of row numbers, in one statement. Computes what `applyEvent` computes, because
 * binding the new values of each row costs a third of the statement.
 */
export const updateWaiting = statement((given: Given<ClaimValues>) => {
  const { leaseDurationMs, now } = given
  const waitedMs = sql<number>`(waited_ms + max(0, ${now} - phase_started_at))`
  const runsUntil = sql<number>`(${now} + run_limit_ms - ran_ms)`
  const leaseEndsAt = sql<number>`min(${now} + ${leaseDurationMs}, ${runsUntil})`
  return query
    .updateTable("jobs")
    .set({
      status: "processing",
      held: 1,
      token: sql<number>`token + 1`,
      claimable_at: leaseEndsAt,
      deadline_at: sql<number>`iif(${leaseEndsAt} = ${runsUntil}, ${runsUntil}, ${leaseEndsAt} + max(0, queue_limit_ms - ${waitedMs}))`,
      phase_started_at: now,
      waited_ms: waitedMs,
      attempts: sql<number>`attempts + 1`,
    })
    .where("seq", "in", sql<number>`(SELECT value FROM json_each(${given.seqs}))`)
    .where("held", "=", 0)
})

/** Claims jobs of lost workers. Claims change no other column. The fence is the token, which grows with every claim and every end of one. */
export const updateLost = listStatement(
  "jobs",
  [
    "seq",
    "token",
    "claimable_at",
    "deadline_at",
    "phase_started_at",
    "ran_ms",
    "waited_ms",
    "attempts",
    "lost_workers",
  ],
  (items) =>
    query
      .updateTable("jobs")
      .from(items.as("claimed"))
      .set((to) => ({
        status: "processing",
        held: 1,
        token: to.ref("claimed.token"),
        claimable_at: to.ref("claimed.claimable_at"),
        deadline_at: to.ref("claimed.deadline_at"),
        phase_started_at: to.ref("claimed.phase_started_at"),
        ran_ms: to.ref("claimed.ran_ms"),
        waited_ms: to.ref("claimed.waited_ms"),
        attempts: to.ref("claimed.attempts"),
        lost_workers: to.ref("claimed.lost_workers"),
      }))
      .whereRef("jobs.seq", "=", "claimed.seq")
      .where((where) => where("jobs.token", "=", sql<number>`${sql.ref("claimed.token")} - 1`)),
)

/** Writes claims under leases of this duration, which were computed from rows read in this transaction. */
export const writeClaims = (tx: Transaction, moves: ReadonlyArray<Move>, leaseDurationMs: number): void => {
  const waiting = moves.flatMap(({ from }) => (from.held === 0 ? [from.seq] : []))
  const lost = moves.flatMap(({ from: { held, seq }, to }) => (held === 0 ? [] : [{ seq, ...to }]))
  let written = 0
  if (waiting.length > 0)
    written += tx.run(updateWaiting, { seqs: JSON.stringify(waiting), now: tx.now, leaseDurationMs })
  for (const part of updateLost.over(lost)) written += tx.run(part, {})
  if (written !== moves.length) throw new TypeError(`${moves.length - written} jobs could not be claimed`)
}

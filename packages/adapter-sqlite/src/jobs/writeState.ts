import type { JobState, JobStatus } from "@kiln/core/domain"
import { assign, type Flag, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
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

/** Writes every move except `extended` and `completed`. Returns false if the job is no longer in the state of `from`. */
export const writeState = (tx: Transaction, from: StateRow, to: JobState): boolean => {
  const unfinished = {
    seq: from.seq,
    fromStatus: from.status,
    fromHeld: from.held,
    fromToken: from.token,
    status: to.status,
    held: to.held ? (1 as const) : (0 as const),
    token: to.token,
    claimableAt: to.claimableAt,
    deadlineAt: to.deadlineAt,
    phaseStartedAt: to.phaseStartedAt,
    ranMs: to.ranMs,
    waitedMs: to.waitedMs,
    attempts: to.attempts,
    failures: to.failures,
    lostWorkers: to.lostWorkers,
  }
  if (to.finishedAt === null) return tx.run(updateUnfinished, unfinished) === 1
  return tx.run(updateFinished, { ...unfinished, finishedAt: to.finishedAt, errorCode: to.errorCode }) === 1
}

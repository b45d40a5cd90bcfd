import type { ErrorCode, JobId, JobState, JobStatus } from "@kiln/core/domain"
import { stateColumns, type StateRow } from "../JobRow.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Flag } from "../Tables.ts"
import type { Transaction } from "../Transaction.ts"

/** What a transition of a job is computed from. By id alone, because a claim's token is the authorization here. */
export const stateById = statement((given: Given<{ id: JobId }>) =>
  query.selectFrom("jobs").select(stateColumns).where("id", "=", given.id),
)

/**
 * Every move of a job but `extended` and `completed`, which write less and more. What the move was
 * computed from stands in the WHERE: status, held and token together are the fence, so an attempt
 * that lost its claim cannot write even if whoever calls forgot to ask.
 */
export const updateState = statement(
  (
    given: Given<{
      seq: number
      fromStatus: JobStatus
      fromHeld: Flag
      fromToken: number
      status: JobStatus
      held: Flag
      token: number
      claimableAt: number | null
      deadlineAt: number | null
      phaseStartedAt: number | null
      finishedAt: number | null
      ranMs: number
      waitedMs: number
      attempts: number
      failures: number
      lostWorkers: number
      errorCode: ErrorCode | null
    }>,
  ) =>
    query
      .updateTable("jobs")
      .set({
        status: given.status,
        held: given.held,
        token: given.token,
        claimable_at: given.claimableAt,
        deadline_at: given.deadlineAt,
        phase_started_at: given.phaseStartedAt,
        finished_at: given.finishedAt,
        ran_ms: given.ranMs,
        waited_ms: given.waitedMs,
        attempts: given.attempts,
        failures: given.failures,
        lost_workers: given.lostWorkers,
        error_code: given.errorCode,
      })
      .where("seq", "=", given.seq)
      .where("status", "=", given.fromStatus)
      .where("held", "=", given.fromHeld)
      .where("token", "=", given.fromToken),
)

/** Whether the job was still as `from` says, and is now as `to` says. */
export const writeState = (tx: Transaction, from: StateRow, to: JobState): boolean =>
  tx.run(updateState, {
    seq: from.seq,
    fromStatus: from.status,
    fromHeld: from.held,
    fromToken: from.token,
    status: to.status,
    held: to.held ? 1 : 0,
    token: to.token,
    claimableAt: to.claimableAt,
    deadlineAt: to.deadlineAt,
    phaseStartedAt: to.phaseStartedAt,
    finishedAt: to.finishedAt,
    ranMs: to.ranMs,
    waitedMs: to.waitedMs,
    attempts: to.attempts,
    failures: to.failures,
    lostWorkers: to.lostWorkers,
    errorCode: to.errorCode,
  }) === 1

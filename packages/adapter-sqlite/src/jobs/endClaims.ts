import {
  applyEvent,
  type ClaimEnd,
  failedOutput,
  holdsClaim,
  isRepeatedEnd,
  type JobId,
  type JsonObject,
} from "@kiln/core/domain"
import type { CancelOutcome, ClaimRef, Deferral, Failure, FencedOutcome } from "@kiln/core/ports"
import type { Transaction } from "../Transaction.ts"
import { keepAttempt } from "./attempts.ts"
import { stateById, stateOf, type StateRow } from "./JobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { keepWait } from "./waits.ts"
import { writeState } from "./writeState.ts"

/** Ends a claim without a result: the job fails or waits for its next attempt. A repeat is recognized and writes nothing. */
const endClaim = (
  tx: Transaction,
  { jobId, record, wait }: ClaimRef & Pick<Deferral, "record" | "wait">,
  endOf: (job: StateRow) => ClaimEnd,
  output?: JsonObject,
): FencedOutcome => {
  const job = tx.get(stateById, { id: jobId })
  if (job === undefined) return "LeaseLost"
  const state = stateOf(job)
  const end = endOf(job)
  const next = applyEvent(state, end, tx.now)
  if (next === undefined || !writeState(tx, job, next, output))
    return isRepeatedEnd(state, end) ? "Written" : "LeaseLost"
  if (record !== undefined) keepAttempt(tx, job.seq, job.attempts, record)
  if (wait !== undefined) keepWait(tx, job.seq, job.attempts, wait)
  if (next.claimableAt !== null) mayBeClaimableAt(tx, job.laneId, next.claimableAt)
  return "Written"
}

/** Fails jobs permanently, with an error code. */
export const failJobs = (tx: Transaction, items: ReadonlyArray<Failure>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => {
    const { errorCode, message, token } = item
    const output = message === undefined ? undefined : failedOutput(message)
    return endClaim(tx, item, () => ({ event: "failed", token, errorCode }), output)
  })

/** Schedules a retry. A provider's Retry-After may have fractions of a millisecond; store time has none. */
export const deferJobs = (tx: Transaction, items: ReadonlyArray<Deferral>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => {
    const { countsAsFailure, delayMs, token } = item
    return endClaim(tx, item, () => ({ event: "deferred", token, delayMs: Math.ceil(delayMs), countsAsFailure }))
  })

/** Returns jobs to the head of their queue. */
export const releaseJobs = (tx: Transaction, items: ReadonlyArray<ClaimRef>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => endClaim(tx, item, (job) => ({ event: "released", token: item.token, createdAt: job.createdAt })))

/** Checks the fence of an attempt without writing anything. */
export const checkClaims = (tx: Transaction, items: ReadonlyArray<ClaimRef>): ReadonlyArray<boolean> =>
  items.map(({ jobId, token }) => {
    const job = tx.get(stateById, { id: jobId })
    return job !== undefined && holdsClaim(stateOf(job), token)
  })

/** Cancels jobs regardless of owner. A worker that holds one loses its claim, because the token grows. */
export const cancelJobs = (tx: Transaction, jobIds: ReadonlyArray<JobId>): ReadonlyArray<CancelOutcome> =>
  jobIds.map((id) => {
    const job = tx.get(stateById, { id })
    if (job === undefined) return "NotFound"
    const failed = applyEvent(stateOf(job), { event: "canceled" }, tx.now)
    if (failed === undefined) return "AlreadyFinished"
    if (!writeState(tx, job, failed)) throw new TypeError(`${id} cannot be canceled`)
    return "Canceled"
  })

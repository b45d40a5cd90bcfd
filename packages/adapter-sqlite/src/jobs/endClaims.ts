import {
  applyEvent,
  type ClaimEnd,
  deferralEvent,
  failedOutput,
  holdsClaim,
  isRepeatedEnd,
  type JobId,
  type JsonObject,
  type Parking,
} from "@kiln/core/domain"
import type { CancelOutcome, ClaimRef, Deferral, Failure, FencedOutcome } from "@kiln/core/ports"
import type { Transaction } from "../Transaction.ts"
import { keepAttempt, keepWait } from "./attempts.ts"
import { stateById, stateOf, type StateRow } from "./JobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { eventState, keepParked } from "./signals.ts"
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

/** Parks a job, unless its event has come. */
const parkJob = (tx: Transaction, item: Deferral, park: Parking): FencedOutcome => {
  const job = tx.get(stateById, { id: item.jobId })
  if (job === undefined) return "LeaseLost"
  const event = eventState(tx, job, park)
  const ref = { jobId: item.jobId, token: item.token }
  const isHeld = holdsClaim(stateOf(job), item.token)
  const outcome = endClaim(tx, ref, () => deferralEvent(item, tx.now, () => event.hasCome))
  if (isHeld && outcome === "Written") keepParked(tx, job.seq, item.token + 1, park, event)
  return outcome
}

/** Schedules a retry, or parks. A provider's Retry-After may have fractions of a millisecond; store time has none. */
export const deferJobs = (tx: Transaction, items: ReadonlyArray<Deferral>): ReadonlyArray<FencedOutcome> =>
  items.map((item) => {
    const { park } = item
    return park === undefined
      ? endClaim(tx, item, () => deferralEvent(item, tx.now, () => false))
      : parkJob(tx, item, park)
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

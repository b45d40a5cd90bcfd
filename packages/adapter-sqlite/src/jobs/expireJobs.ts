import { applyEvent, isFinished, type JobId, overdueEvent } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { stateColumns, stateOf } from "./JobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { writeState } from "./writeState.ts"

/** Longest overdue first, from an index that holds only unfinished jobs. */
export const overdueJobs = statement((given: Given<{ readonly now: number; readonly limit: number }>) =>
  query
    .selectFrom("jobs")
    .select(stateColumns)
    .where("deadline_at", "<=", given.now)
    .orderBy("deadline_at")
    .orderBy("seq")
    .limit(given.limit),
)

export const expireJobs = (tx: Transaction, limit: number): ReadonlyArray<JobId> => {
  const failed: Array<JobId> = []
  // A job whose worker was lost returns to its queue and does not count, so reaching the limit may take several reads.
  for (let more = limit > 0; more && failed.length < limit;) {
    const jobs = tx.all(overdueJobs, { now: tx.now, limit: limit - failed.length })
    more = false
    for (const job of jobs) {
      const state = { ...stateOf(job), createdAt: job.createdAt }
      const next = applyEvent(state, overdueEvent(state, tx.now), tx.now)
      if (next === undefined || !writeState(tx, job, next)) throw new TypeError(`${job.id} cannot expire`)
      if (isFinished(next)) failed.push(job.id)
      else {
        more = true
        mayBeClaimableAt(tx, job.laneId, job.createdAt)
      }
    }
  }
  return failed
}

import { applyEvent, type JobId } from "@kiln/core/domain"
import { stateColumns, stateOf } from "../JobRow.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { writeState } from "./writeState.ts"

/** The longest overdue first, from an index that holds unfinished jobs only. */
export const overdueJobs = statement((given: Given<{ now: number; limit: number }>) =>
  query
    .selectFrom("jobs")
    .select(stateColumns)
    .where("deadline_at", "<=", given.now)
    .orderBy("deadline_at")
    .orderBy("seq")
    .limit(given.limit),
)

export const expireJobs = (tx: Transaction, limit: number): ReadonlyArray<JobId> => {
  const jobs = tx.all(overdueJobs, { now: tx.now, limit })
  for (const job of jobs) {
    const failed = applyEvent(stateOf(job), { event: "expired" }, tx.now)
    if (failed === undefined || !writeState(tx, job, failed)) throw new TypeError(`${job.id} cannot expire`)
  }
  return jobs.map(({ id }) => id)
}

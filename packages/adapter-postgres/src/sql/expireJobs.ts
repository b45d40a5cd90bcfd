import { applyEvent, type JobId } from "@kiln/core/domain"
import { stateColumns, stateOf } from "../JobRow.ts"
import type { Transaction } from "../Session.ts"
import { type Given, query, statement, storeTime } from "../Statement.ts"
import { finishJobs, withoutResult } from "./writeStates.ts"

/** The longest overdue first. What another is about to change is left for the next time. */
export const overdueJobs = statement((given: Given<{ now: number; limit: number }>) =>
  query
    .selectFrom("queue")
    .select(stateColumns)
    .where("deadline_at", "<=", given.now)
    .orderBy("deadline_at")
    .orderBy("job_seq")
    .limit(given.limit)
    .forUpdate()
    .skipLocked(),
)

/** Whether there is one, by a look into the same index. */
export const anyOverdue = statement(() =>
  query.selectFrom("queue").select("id").where("deadline_at", "<=", storeTime).orderBy("deadline_at").limit(1),
)

/** Their ids. */
export const expireJobs = async (tx: Transaction, limit: number): Promise<ReadonlyArray<JobId>> => {
  const jobs = await tx.all(overdueJobs, { now: tx.now, limit })
  await finishJobs(
    tx,
    jobs.map((from) => {
      const to = applyEvent(stateOf(from), { event: "expired" }, tx.now)
      if (to === undefined) throw new TypeError(`${from.id} cannot expire`)
      return withoutResult({ from, to })
    }),
  )
  return jobs.map(({ id }) => id)
}

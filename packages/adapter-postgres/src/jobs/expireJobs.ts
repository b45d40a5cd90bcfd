import { applyEvent, isFinished, type JobId, overdueEvent } from "@kiln/core/domain"
import { stateColumns, stateOf } from "./jobRow.ts"
import type { Transaction } from "../Session.ts"
import { type Given, query, statement, storeTime } from "../Statement.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { lockedJobsAndLanes } from "./lockJobs.ts"
import { finishJobs, type Move, moveJobs, withoutResult } from "./writeStates.ts"

/** Overdue jobs, oldest deadline first. Locked ones are left for the next sweep. */
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

/** Looks for an overdue job in the same index. */
export const anyOverdue = statement(() =>
  query.selectFrom("queue").select("id").where("deadline_at", "<=", storeTime).orderBy("deadline_at").limit(1),
)

/** Fails overdue jobs and returns their ids. A job whose worker vanished is returned to the queue and does not count, so reaching the limit may take several queries. */
export const expireJobs = async (tx: Transaction, limit: number): Promise<ReadonlyArray<JobId>> => {
  const failed: Array<Move> = []
  const lost: Array<Move> = []
  for (let more = limit > 0; more && failed.length < limit;) {
    const jobs = await tx.all(overdueJobs, { now: tx.now, limit: limit - failed.length })
    const moves = jobs.map((from): Move => {
      const state = { ...stateOf(from), createdAt: from.createdAt }
      const to = applyEvent(state, overdueEvent(state, tx.now), tx.now)
      if (to === undefined) throw new TypeError(`${from.id} cannot expire`)
      return { from, to }
    })
    const ends = moves.filter(({ to }) => isFinished(to))
    const takenBack = moves.filter(({ to }) => !isFinished(to))
    // Also locks their lanes, as for every job that becomes claimable earlier.
    await lockedJobsAndLanes(
      tx,
      takenBack.map(({ from }) => ({ jobId: from.id })),
    )
    await Promise.all([finishJobs(tx, ends.map(withoutResult)), moveJobs(tx, takenBack)])
    failed.push(...ends)
    lost.push(...takenBack)
    more = takenBack.length > 0
  }
  await mayBeClaimableAt(
    tx,
    lost.map(({ from, to }) => ({ laneId: from.laneId, claimableAt: to.claimableAt })),
  )
  return failed.map(({ from }) => from.id)
}

import { applyEvent, isFinished, isOverdue, type JobId, overdueEvent } from "@kiln/core/domain"
import { type MemoryState, putJob } from "../MemoryState.ts"

/**
 * Fails overdue jobs, the longest overdue first. A job whose worker vanished is returned to the queue instead, and does not
 * count.
 */
export const expireJobs = (state: MemoryState, limit: number, now: number): ReadonlyArray<JobId> => {
  const overdue = [...state.jobs.values()]
    .filter((job) => isOverdue(job, now))
    .sort((a, b) => (a.deadlineAt ?? 0) - (b.deadlineAt ?? 0))
  const failed: Array<JobId> = []
  for (const job of overdue) {
    if (failed.length >= limit) break
    const next = applyEvent(job, overdueEvent(job, now), now)
    if (next !== undefined && isFinished(putJob(state, { ...job, ...next }))) failed.push(job.id)
  }
  return failed
}

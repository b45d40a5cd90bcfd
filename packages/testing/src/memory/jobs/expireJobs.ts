import { applyEvent, isOverdue, type JobId } from "@kiln/core/domain"
import { type MemoryState, putJob } from "../MemoryState.ts"

/** Fails overdue jobs, the longest overdue first. */
export const expireJobs = (state: MemoryState, limit: number, now: number): ReadonlyArray<JobId> => {
  const overdue = [...state.jobs.values()]
    .filter((job) => isOverdue(job, now))
    .sort((a, b) => (a.deadlineAt ?? 0) - (b.deadlineAt ?? 0))
    .slice(0, limit)
  for (const job of overdue) {
    const failed = applyEvent(job, { event: "expired" }, now)
    if (failed !== undefined) putJob(state, { ...job, ...failed })
  }
  return overdue.map((job) => job.id)
}

import { applyEvent, type JobId } from "@kiln/core/domain"
import type { CancelOutcome } from "@kiln/core/ports"
import { type MemoryState, putJob } from "../MemoryState.ts"

/** Fails unfinished jobs, even while a worker holds them. */
export const cancelJobs = (
  state: MemoryState,
  jobIds: ReadonlyArray<JobId>,
  now: number,
): ReadonlyArray<CancelOutcome> =>
  jobIds.map((id) => {
    const job = state.jobs.get(id)
    if (job === undefined) return "NotFound"
    const failed = applyEvent(job, { event: "canceled" }, now)
    if (failed === undefined) return "AlreadyFinished"
    putJob(state, { ...job, ...failed })
    return "Canceled"
  })

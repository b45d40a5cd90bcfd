import type { JobId } from "./Ids.ts"
import type { JobState } from "./JobState.ts"
import { applyEvent } from "./JobTransition.ts"

/** Another time for the start of a waiting job. */
export interface Rescheduling {
  readonly jobId: JobId
  /** Whole milliseconds of store time from now; 0 makes the job claimable. */
  readonly delayMs: number
  /** Only if the job has had no attempt yet; default false. */
  readonly queuedOnly?: boolean | undefined
}

/** Returns the state of a job that may start `delayMs` from now, or why nothing changes. Every store decides by this function. */
export const rescheduling = (
  job: JobState,
  parked: boolean,
  { delayMs, queuedOnly = false }: Omit<Rescheduling, "jobId">,
  now: number,
): JobState | "Ready" | "Started" | "Held" | "Parked" | "AlreadyFinished" => {
  if (job.claimableAt === null) return "AlreadyFinished"
  if (queuedOnly && job.status !== "queued") return "Started"
  if (job.held) return "Held"
  // Also a job whose parking is over, and that waits for a worker only.
  if (delayMs === 0 && job.claimableAt <= now) return "Ready"
  if (parked) return "Parked"
  // One that is out of time is failed by the next sweep.
  return applyEvent(job, { event: "rescheduled", at: now + delayMs }, now) ?? "AlreadyFinished"
}

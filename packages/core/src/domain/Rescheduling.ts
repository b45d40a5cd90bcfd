import type { JobState } from "./JobState.ts"
import { applyEvent } from "./JobTransition.ts"

/** Returns the state of a job that may start `delayMs` from now, or why nothing changes. Every store decides by this function. */
export const rescheduling = (
  job: JobState,
  parked: boolean,
  delayMs: number,
  now: number,
): JobState | "Ready" | "Held" | "Parked" | "AlreadyFinished" => {
  if (job.claimableAt === null) return "AlreadyFinished"
  if (job.held) return "Held"
  if (parked) return "Parked"
  if (delayMs === 0 && job.claimableAt <= now) return "Ready"
  // One that is out of time is failed by the next sweep.
  return applyEvent(job, { event: "rescheduled", at: now + delayMs }, now) ?? "AlreadyFinished"
}

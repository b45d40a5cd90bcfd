import type { JobId } from "./Ids.ts"
import type { JobState } from "./JobState.ts"
import { applyEvent } from "./JobTransition.ts"
import type { Priority } from "./Priority.ts"

/** Another start or another priority of a waiting job. */
export interface Rescheduling {
  readonly jobId: JobId
  /** Whole milliseconds of store time from now; 0 makes the job claimable. Without it, the time stays. */
  readonly delayMs?: number | undefined
  /** Without it, the priority stays. */
  readonly priority?: Priority | undefined
  /** Only if the job has had no attempt yet; default false. */
  readonly queuedOnly?: boolean | undefined
}

/** A waiting job with its new start and priority. */
export interface Rescheduled {
  /** `undefined` if the time stays. */
  readonly state: JobState | undefined
  readonly priority: Priority
}

/**
 * Returns the new start and priority of a waiting job, or why nothing changes. A parked job keeps its time, which an event ends. Every
 * store decides by this function.
 */
export const rescheduling = (
  job: JobState & { readonly priority: Priority },
  parked: boolean,
  { delayMs, priority = job.priority, queuedOnly = false }: Omit<Rescheduling, "jobId">,
  now: number,
): Rescheduled | "Ready" | "Unchanged" | "Started" | "Held" | "Parked" | "AlreadyFinished" => {
  if (job.claimableAt === null) return "AlreadyFinished"
  if (queuedOnly && job.status !== "queued") return "Started"
  if (job.held) return "Held"
  // Also a job whose parking is over, and that waits for a worker only.
  const isReady = delayMs === 0 && job.claimableAt <= now
  if (delayMs === undefined || isReady) {
    if (priority !== job.priority) return { state: undefined, priority }
    return isReady ? "Ready" : "Unchanged"
  }
  if (parked) return "Parked"
  // One that is out of time is failed by the next sweep.
  const state = applyEvent(job, { event: "rescheduled", at: now + delayMs }, now)
  return state === undefined ? "AlreadyFinished" : { state, priority }
}

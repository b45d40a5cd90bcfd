import type { JobId } from "./Ids.ts"
import type { Schedule } from "./Schedule.ts"

/** A tick to get a job, and the schedule as it was read. */
export interface JobTick {
  readonly name: string
  /** The version of the schedule that was read. */
  readonly version: number
  /** Store time, Unix milliseconds. */
  readonly tick: number
  readonly schedule: Schedule
  /** The tick after this one. */
  readonly nextAt: number
}

/**
 * Returns what to write in the transaction that decides about the job of a tick; `undefined` if the tick still has no job. A key that
 * is bound to another request means that the tick has a job from before the schedule was changed.
 */
export const advanceAfter = (
  { nextAt, schedule, tick }: JobTick,
  outcome: { readonly _tag: string; readonly job?: { readonly id: JobId } },
): { readonly nextAt: number; readonly document: string } | undefined => {
  const { _tag, job } = outcome
  if (_tag !== "Created" && _tag !== "Replayed" && _tag !== "KeyReused") return undefined
  const last = job === undefined ? schedule.last : { tick, jobId: job.id }
  return { nextAt, document: JSON.stringify({ ...schedule, last, refusal: null } satisfies Schedule) }
}

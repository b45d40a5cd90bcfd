import type { JobId } from "./Ids.ts"
import type { Schedule } from "./Schedule.ts"

/** A tick to get a job, and its schedule. */
export interface JobTick {
  readonly name: string
  /** The version of the schedule that was read. */
  readonly version: number
  /** Store time, Unix milliseconds. */
  readonly tick: number
  /** The schedule as it is to be written, except for the job. */
  readonly schedule: Schedule
  /** The tick after this one; `null` without one. */
  readonly nextAt: number | null
  /** True for a job outside of the ticks: these stay as they are. */
  readonly isManual?: boolean | undefined
}

/**
 * Returns what to write in the transaction that decides about the job of a tick; `undefined` if the tick still has no job. A key that
 * is bound to another request means that the tick has a job from before the schedule was changed.
 */
export const advanceAfter = (
  { isManual, nextAt, schedule, tick }: JobTick,
  outcome: { readonly _tag: string; readonly job?: { readonly id: JobId } },
): { readonly nextAt: number | null; readonly document: string } | undefined => {
  const { _tag, job } = outcome
  if (_tag !== "Created" && _tag !== "Replayed" && _tag !== "KeyReused") return undefined
  if (isManual === true) {
    if (_tag !== "Created" || job === undefined) return undefined
    return { nextAt, document: JSON.stringify({ ...schedule, manual: { at: tick, jobId: job.id } } satisfies Schedule) }
  }
  const last = job === undefined ? schedule.last : { tick, jobId: job.id }
  const { waits: _, ...rest } = schedule
  return { nextAt, document: JSON.stringify({ ...rest, last, refusal: null } satisfies Schedule) }
}

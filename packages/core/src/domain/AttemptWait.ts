import type { ParkedJob } from "./Parking.ts"

/** Number of runs of equal waits that a store keeps of a job: the newest. */
export const maxWaitRuns = 20

/**
 * Why an attempt ended to wait, at no cost to the job's budget of failures: its children or prerequisites are unfinished, a signal has not come, it
 * sleeps, a provider is paused or
 * asked to be called later, prerequisites of its children are missing, kiln's own store or blobs were unavailable, or the job runs
 * alone because it may crash its worker.
 */
export type WaitReason =
  | "children"
  | "after"
  | "signal"
  | "sleep"
  | "provider"
  | "gate"
  | "store"
  | "blobs"
  | "isolation"

/** A worker's report of an attempt that ended to wait. Nothing in it comes from a request. */
export interface AttemptWait {
  readonly reason: WaitReason
  /** The provider, what is missing, or that of a parking; `null` for other reasons. */
  readonly subject: string | null
  /** For a provider: `quota`, `configuration`, `paused` or `postponed`; `null` for other reasons. */
  readonly cause: string | null
}

/** Consecutive attempts that ended to wait for the same reason. Times in unix milliseconds of store time. */
export interface WaitRun extends AttemptWait {
  /** The first of the attempts, counted from 1. */
  readonly firstAttempt: number
  readonly lastAttempt: number
  readonly count: number
  readonly firstAt: number
  readonly lastAt: number
}

/**
 * Returns the run of a parked job, which is the last of its runs while it is parked. It is not kept after that: the attempt does not
 * count, so the next one has the same number.
 */
export const parkedRun = ({ parkedAt, reason, subject }: ParkedJob, attempts: number): WaitRun => ({
  reason,
  subject,
  cause: null,
  firstAttempt: attempts + 1,
  lastAttempt: attempts + 1,
  count: 1,
  firstAt: parkedAt,
  lastAt: parkedAt,
})

/** Adds an attempt that ended to wait to the runs of a job, oldest first. */
export const withWait = (
  runs: ReadonlyArray<WaitRun>,
  { cause, reason, subject }: AttemptWait,
  attempt: number,
  now: number,
): ReadonlyArray<WaitRun> => {
  const last = runs.at(-1)
  if (last?.lastAttempt === attempt - 1 && last.reason === reason && last.subject === subject && last.cause === cause)
    return [...runs.slice(0, -1), { ...last, lastAttempt: attempt, count: last.count + 1, lastAt: now }]
  const added = {
    reason,
    subject,
    cause,
    firstAttempt: attempt,
    lastAttempt: attempt,
    count: 1,
    firstAt: now,
    lastAt: now,
  }
  return [...runs, added].slice(-maxWaitRuns)
}

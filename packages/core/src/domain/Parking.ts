import type { JobState } from "./JobState.ts"
import type { TransitionEvent } from "./JobTransition.ts"
import { isStorableText, type Json } from "./givenValues.ts"

/**
 * The event that a parked job waits for: its children, the jobs that it starts after, a signal, a point in time, or what its children need
 * to be accepted.
 */
export type ParkReason = "children" | "after" | "signal" | "sleep" | "gate"

/** The subject of a parking. Its text is stored. */
export interface ParkedOn {
  readonly reason: ParkReason
  /** The step of the children, the name of the signal or the sleep, what the children need, or the number of jobs that it starts after. */
  readonly subject: string
}

/** An attempt that parks its job: the job holds no slot and no lease, and the attempt is not counted. */
export interface Parking extends ParkedOn {
  /** When the job goes on without the event, in Unix milliseconds of store time. Only the event ends it if omitted. */
  readonly until?: number | undefined
}

/** A parked job, as a store keeps it. It is over once the job's token is another, the job is held, or `until` has passed. */
export interface ParkedJob extends ParkedOn {
  /** The job's token since it was parked. */
  readonly token: number
  /** Unix milliseconds of store time. */
  readonly parkedAt: number
}

/** Maximum time for which a job can be parked, in milliseconds. */
export const maxParkMs = 366 * 24 * 3_600_000

/** Returns whether a parking still holds. */
export const isParked = <Parked extends Pick<ParkedJob, "token">>(
  parked: Parked | undefined,
  job: Pick<JobState, "status" | "held" | "token">,
): parked is Parked => parked !== undefined && job.status === "processing" && !job.held && job.token === parked.token

/** Maximum length of the name of a signal, in UTF-16 code units. */
const maxSignalNameLength = 64
/** Maximum length of the value of a signal, in UTF-16 code units of its JSON. */
export const maxSignalValueLength = 65_536
/** Maximum number of signals that a job keeps. */
export const maxSignals = 100

/** The first value that came under a name. */
export interface Signal {
  readonly name: string
  readonly value: Json
  /** Unix milliseconds of store time. */
  readonly at: number
}

/** Whether a parking ends with other jobs. */
export const areJobs = ({ reason }: Pick<ParkedOn, "reason">): boolean => reason === "children" || reason === "after"

/** Returns the event of a deferral. `hasCome`: what a parking waits for has come already. */
export const deferralEvent = (
  {
    countsAsFailure,
    delayMs,
    park,
    token,
  }: {
    readonly token: number
    readonly delayMs: number
    readonly countsAsFailure: boolean
    readonly park?: Parking | undefined
  },
  now: number,
  hasCome: (park: Parking) => boolean,
): Extract<TransitionEvent, { readonly event: "deferred" | "parked" }> => {
  if (park === undefined) return { event: "deferred", token, delayMs: Math.ceil(delayMs), countsAsFailure }
  // One that looks again at a time by itself waits for more than this event.
  const isEvent = park.reason === "signal" || (areJobs(park) && park.until === undefined)
  const until = isEvent && hasCome(park) ? now : Math.min(park.until ?? Infinity, now + maxParkMs)
  // For prerequisites, a job waits no longer than its queue limit.
  const isCharged = park.reason === "gate"
  return { event: "parked", token, until: Math.max(now, Math.ceil(until)), isCharged }
}

/** The rule of `isSignalName`, for messages. */
export const signalNameRule = `the name of a signal must be text of 1 to ${maxSignalNameLength} characters, without U+0000 or unpaired surrogates`

/** Returns whether a signal can have this name. */
export const isSignalName = (name: unknown): name is string =>
  typeof name === "string" && name.length > 0 && name.length <= maxSignalNameLength && isStorableText(name)

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

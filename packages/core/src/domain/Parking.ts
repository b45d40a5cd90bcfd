import type { JobState } from "./JobState.ts"
import type { TransitionEvent } from "./JobTransition.ts"
import { isStorableText, type Json } from "./Json.ts"

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

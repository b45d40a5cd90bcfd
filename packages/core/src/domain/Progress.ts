import type { JobStatus } from "./JobState.ts"
import type { Json } from "./givenValues.ts"

/** The progress of a job. */
export interface Progress {
  /** The finished share of the work, from 0 to 1. */
  readonly value: number
  /** The current activity of the attempt, for callers; `null` if it did not report one. */
  readonly message: string | null
  /** Present if the job reported none and waits for children: the share is that of the finished ones, which readers count. */
  readonly children?: { readonly step: string; readonly total: number }
}

/** Returns the value of the checkpoint of a job that waits for the children of a step. */
export const childrenCheckpoint = (step: string, total: number, attempt: number): Json => ({
  attempt,
  value: 0,
  message: null,
  step,
  total,
})

/** Returns the progress of a job that waits for children, of which this many are unfinished. */
export const progressOfChildren = (total: number, unfinished: number): Progress => {
  const finished = Math.max(0, total - unfinished)
  return { value: total === 0 ? 0 : finished / total, message: `${finished} of ${total}` }
}

/**
 * The checkpoint that holds the progress of a job, so that it is written under the fence, and removed, like the steps of the job. No step
 * can have this name.
 */
export const progressStep = "kiln:progress"

/** Minimum time between two writes of one attempt, in milliseconds. */
export const progressIntervalMs = 1_000

/** Maximum length of a message, in UTF-16 code units. */
const maxMessageLength = 200

/** The tolerance for shares outside their range, because sums of fractions are not exact. */
const tolerance = 1e-6

/** Returns what is wrong with a report of progress; `undefined` if it is valid. NaN is valid: a share of nothing must not fail a job. */
export const progressProblem = (value: unknown, message: unknown): string | undefined => {
  if (typeof value !== "number")
    return `the value of progress() must be a share from 0 to 1, not a value of type ${typeof value}`
  if (value < -tolerance || value > 1 + tolerance)
    return `the value of progress() must be a share from 0 to 1, not ${value}; for percent, divide by 100`
  return message === undefined || typeof message === "string" ? undefined : "the message of progress() must be a string"
}

/**
 * Returns the progress that an attempt reports, of valid values. NaN counts as 0, and inexact shares are moved into the range. Longer
 * messages are cut.
 */
export const progressFrom = (value: number, message: string | undefined): Progress => {
  return {
    value: Number.isNaN(value) ? 0 : Math.min(1, Math.max(0, value)) + 0,
    message: message === undefined ? null : storable(message),
  }
}

const storable = (message: string): string =>
  message.slice(0, maxMessageLength).toWellFormed().replaceAll("\u0000", "\ufffd")

/** Returns the value of the checkpoint. It names its attempt, because a later attempt starts again. */
export const progressCheckpoint = ({ message, value }: Progress, attempt: number): Json => ({ attempt, value, message })

/** Returns the progress of the job's latest attempt; `null` if it reported none, or the job is not in progress. */
export const progressOf = (job: {
  readonly status: JobStatus
  readonly attempts: number
  readonly checkpoints: Readonly<Record<string, Json>>
}): Progress | null => (job.status === "processing" ? progressIn(job.checkpoints[progressStep], job.attempts) : null)

/** Reads the value of the checkpoint. */
export const progressIn = (kept: Json | undefined, attempts: number): Progress | null => {
  if (typeof kept !== "object" || kept === null || Array.isArray(kept)) return null
  const { attempt, message, step, total, value } = kept as {
    readonly [Name in "attempt" | "message" | "step" | "total" | "value"]?: Json
  }
  // A parked job does not count the attempt that parked it, and shows its report.
  if (typeof attempt !== "number" || attempt < attempts || typeof value !== "number") return null
  const children = typeof step === "string" && typeof total === "number" ? { children: { step, total } } : {}
  return { value, message: typeof message === "string" ? message : null, ...children }
}

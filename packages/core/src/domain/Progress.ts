import type { JobStatus } from "./JobState.ts"
import type { Json } from "./Json.ts"

/** How far a job is. */
export interface Progress {
  /** The finished share of the work, from 0 to 1. */
  readonly value: number
  /** What the attempt is doing, for callers; `null` if it did not say. */
  readonly message: string | null
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

/**
 * Returns the progress that an attempt reports. Numbers are clamped to 0 to 1, and NaN counts as 0, because a share of nothing must not
 * fail a job. Longer messages are cut. Throws `TypeError` for other types.
 */
export const progressFrom = (value: unknown, message: unknown): Progress => {
  if (typeof value !== "number") throw new TypeError("the value of progress() must be a number from 0 to 1")
  if (message !== undefined && typeof message !== "string")
    throw new TypeError("the message of progress() must be a string")
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
  const { attempt, message, value } = kept as { readonly [Name in "attempt" | "message" | "value"]?: Json }
  if (attempt !== attempts || typeof value !== "number") return null
  return { value, message: typeof message === "string" ? message : null }
}

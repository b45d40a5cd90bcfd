import type { JobStatus } from "./JobState.ts"
import type { JsonObject } from "./Json.ts"

/** Maximum length of the message of a failed job, in UTF-16 code units. */
const maxErrorMessageLength = 1_000

/**
 * Returns the output of a job that fails with a message for its caller. The message is kept there because it is the job's data: it is
 * erased with the rest. A longer one is cut.
 */
export const failedOutput = (message: string): JsonObject => ({
  message: message.slice(0, maxErrorMessageLength).toWellFormed().replaceAll("\u0000", "\ufffd"),
})

/** Returns what a failed job tells its caller; `null` if it tells nothing, or its data is gone. */
export const errorMessageOf = (job: {
  readonly status: JobStatus
  readonly output: JsonObject | null
}): string | null => {
  const message = job.status === "failed" ? job.output?.["message"] : undefined
  return typeof message === "string" ? message : null
}

/**
 * Why a job failed, apart from the codes that custom kinds declare. A closed list: clients switch over it.
 *
 * - `audio_unreadable`, `audio_too_long` (measured, over 901 s), `audio_too_short` (under 0.1 s): the upload
 * - `content_rejected`, `provider_rejected`: the provider refused the request
 * - `provider_unavailable`: the provider failed on every attempt
 * - `result_invalid`: the provider's answer failed validation
 * - `job_timeout` (run limit), `queue_timeout` (queue limit)
 * - `prerequisite_failed`: a job that it was to start after failed
 * - `not_accepted`: a job submitted it with its result, and a price was missing or a spend cap reached when that job ended
 * - `attempts_exhausted`: its workers died each time
 * - `canceled_by_operator`, `internal_error`
 */
export const errorCodes = [
  "audio_unreadable",
  "audio_too_long",
  "audio_too_short",
  "content_rejected",
  "provider_rejected",
  "provider_unavailable",
  "result_invalid",
  "job_timeout",
  "queue_timeout",
  "attempts_exhausted",
  "prerequisite_failed",
  "not_accepted",
  "canceled_by_operator",
  "internal_error",
] as const
export type BuiltInErrorCode = (typeof errorCodes)[number]

/** Why a job failed: a built-in code, or one that its custom kind declares. */
export type ErrorCode = BuiltInErrorCode | (string & {})

export const isBuiltInErrorCode = (text: string): text is BuiltInErrorCode =>
  (errorCodes as ReadonlyArray<string>).includes(text)

/** The form of an error code. It may be logged and shown to callers. */
export const errorCodeForm = /^[a-z][a-z0-9_]{0,63}$/

/** Things a client should know about a job that are not failures. In ascending order: of two, the later wins. */
export const warningCodes = [
  "duration_mismatch",
  "no_speech_detected",
  "output_truncated",
  "data_expired",
  "data_deleted",
] as const
export type WarningCode = (typeof warningCodes)[number]

/** Returns the stronger of two warnings; `undefined` without any. */
export const strongerWarning = (a: WarningCode | undefined, b: WarningCode | undefined): WarningCode | undefined =>
  a === undefined ? b : b === undefined ? a : warningCodes.indexOf(a) >= warningCodes.indexOf(b) ? a : b

/** The failures that are the fault of the job's upload. It is erased with the failure: no job can use it. */
export const uploadFaults = [
  "audio_unreadable",
  "audio_too_long",
  "audio_too_short",
] as const satisfies ReadonlyArray<ErrorCode>

/** Returns whether a failure is the fault of the job's upload. */
export const isUploadFault = (errorCode: ErrorCode | null): boolean =>
  errorCode !== null && (uploadFaults as ReadonlyArray<ErrorCode>).includes(errorCode)

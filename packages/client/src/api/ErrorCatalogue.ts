import type { KilnErrorCode } from "@kiln/core/domain"

/**
 * Every error of the HTTP service, with its status, type and message. Handlers only name a code, so this file is the complete
 * list. `code` is for programs, `type` groups codes, and `message` tells people what to do.
 */

export const errorTypes = [
  "invalid_request_error",
  "idempotency_error",
  "authentication_error",
  "permission_error",
  "not_found_error",
  "conflict_error",
  "rate_limit_error",
  "api_error",
] as const
export type ErrorType = (typeof errorTypes)[number]

export interface ErrorEntry {
  readonly status: number
  readonly type: ErrorType
  readonly message: string
  /** Headers that the response always has, by lower-case name. */
  readonly headers?: Readonly<Record<string, string>>
}

const retryAfter = (seconds: number) => ({ "retry-after": String(seconds) })

/** Codes of operations that only operators and embedding programs have. */
type NotOverHttp =
  | "prerequisite_not_found"
  | "job_not_retryable"
  | "job_not_delivered"
  | "job_not_waiting"
  | "requests_hidden"
  | "kind_unknown"
  | "wait_timeout"

/** The engine's errors keep their code over HTTP. The others are about the request itself. */
type Entries = { readonly [Code in Exclude<KilnErrorCode, NotOverHttp>]: ErrorEntry }

const entries = {
  malformed_request: {
    status: 400,
    type: "invalid_request_error",
    message: "The request is not well-formed HTTP/1.1.",
  },
  invalid_json: {
    status: 400,
    type: "invalid_request_error",
    message: "The body must be a single JSON object in UTF-8, at most 16 levels deep and without duplicate keys.",
  },
  invalid_request: {
    status: 400,
    type: "invalid_request_error",
    message: "Some fields are invalid; details.errors lists all of them.",
  },
  idempotency_key_missing: {
    status: 400,
    type: "idempotency_error",
    message: "Send an Idempotency-Key header with a unique value, such as a UUID, for each new job.",
  },
  idempotency_key_invalid: {
    status: 400,
    type: "idempotency_error",
    message: "Idempotency-Key must be sent once, with 1 to 255 visible ASCII characters and no spaces.",
  },
  upload_not_found: {
    status: 400,
    type: "invalid_request_error",
    message: "This key has no upload with this id. Create one with POST /v1/audio/uploads.",
  },
  partial_upload: {
    status: 400,
    type: "invalid_request_error",
    message: "Content-Range is not supported. Send the whole file with one PUT, without this header.",
  },
  digest_mismatch: {
    status: 400,
    type: "invalid_request_error",
    message: "The file does not have the digest in its headers. Send it again to the same URL.",
  },
  missing_api_key: {
    status: 401,
    type: "authentication_error",
    message: "The API key is missing. Send it in the header Authorization: Bearer kiln_test_… or kiln_live_….",
    headers: { "www-authenticate": 'Bearer realm="api"' },
  },
  invalid_api_key: {
    status: 401,
    type: "authentication_error",
    message:
      "This API key is not valid. Send it once and without quotes, as Authorization: Bearer kiln_test_… or kiln_live_…. Check that variables are replaced with their values, and that the key is complete and neither revoked nor expired.",
    headers: { "www-authenticate": 'Bearer realm="api", error="invalid_token"' },
  },
  insufficient_scope: {
    status: 403,
    type: "permission_error",
    message: "This API key lacks the scope that this endpoint requires; details.required_scope names it.",
  },
  live_not_active: {
    status: 403,
    type: "permission_error",
    message: "Live jobs of this type are not active; details.missing lists what the operator must set up.",
  },
  spend_cap_reached: {
    status: 402,
    type: "permission_error",
    message:
      "This job could pass a spend cap of its key or project, so it was not created. See details, and ask the operator or wait until details.resets_at.",
  },
  upload_url_invalid: {
    status: 403,
    type: "permission_error",
    message: "This upload URL is not valid. Use the upload_url returned by POST /v1/audio/uploads without changes.",
  },
  file_url_invalid: {
    status: 403,
    type: "permission_error",
    message: "This file URL is not valid. Use the URL returned by polling the job without changes.",
  },
  not_found: {
    status: 404,
    type: "not_found_error",
    message: "This path does not exist. Paths are case-sensitive and have no trailing slash.",
  },
  job_not_found: {
    status: 404,
    type: "not_found_error",
    message:
      "This key has no job with this id at this path. Audio jobs are at /v1/jobs/{id} and image jobs at /v1/images/jobs/{id}. Only the key that created a job can access it.",
  },
  method_not_allowed: {
    status: 405,
    type: "invalid_request_error",
    message: "This path does not support this method; the Allow header lists the supported ones.",
  },
  request_timeout: {
    status: 408,
    type: "invalid_request_error",
    message: "The request did not arrive completely in time. Send it again.",
  },
  upload_timeout: {
    status: 408,
    type: "conflict_error",
    message: "The transfer stalled or took too long. Send the whole file again to the same URL.",
  },
  job_processing: {
    status: 409,
    type: "conflict_error",
    message: "The job is not finished. Poll it until its status is done or failed, then delete its data.",
    headers: retryAfter(2),
  },
  job_finished: {
    status: 409,
    type: "conflict_error",
    message: "The job has finished, so it can receive no more signals.",
  },
  upload_not_ready: {
    status: 409,
    type: "conflict_error",
    message: "The file of this upload has not arrived yet. Send it to the upload_url first.",
    headers: retryAfter(2),
  },
  upload_already_used: {
    status: 409,
    type: "conflict_error",
    message: "Another job has already used this upload. Create a new upload for each job.",
    headers: { "x-should-retry": "false" },
  },
  upload_in_progress: {
    status: 409,
    type: "conflict_error",
    message: "Another transfer to this URL is in progress. Wait until it ends.",
    headers: retryAfter(5),
  },
  upload_already_completed: {
    status: 409,
    type: "conflict_error",
    message:
      "The file of this upload has already arrived. Create a job with the id of the upload, or a new upload for another file.",
  },
  upload_expired: {
    status: 410,
    type: "invalid_request_error",
    message: "This upload has expired. Create a new one with POST /v1/audio/uploads.",
  },
  file_gone: {
    status: 410,
    type: "not_found_error",
    message:
      "The file is no longer available at this URL. If the job's data has not been deleted, poll the job for a new URL.",
  },
  body_too_large: {
    status: 413,
    type: "invalid_request_error",
    message: "The JSON body must be at most 65536 bytes.",
  },
  file_too_large: {
    status: 413,
    type: "invalid_request_error",
    message: "The file is larger than the upload's max_bytes.",
  },
  unsupported_content_type: {
    status: 415,
    type: "invalid_request_error",
    message: "This Content-Type or Content-Encoding is not supported here; details.expected lists the accepted types.",
  },
  range_not_satisfiable: {
    status: 416,
    type: "invalid_request_error",
    message: "The range is outside the file; Content-Range has the file's size.",
  },
  idempotency_key_reused: {
    status: 422,
    type: "idempotency_error",
    message:
      "This Idempotency-Key was already used with a different request. Use a new key for each new job, and the same key only to repeat a request unchanged.",
  },
  empty_file: {
    status: 422,
    type: "invalid_request_error",
    message: "The file is empty. Send its bytes as the body of the PUT.",
  },
  audio_format_mismatch: {
    status: 422,
    type: "invalid_request_error",
    message: "The file is not in the declared format. Create an upload with the format of the file.",
  },
  rate_limited: {
    status: 429,
    type: "rate_limit_error",
    message: "Too many requests. Wait for the number of seconds in Retry-After.",
  },
  queue_full: {
    status: 429,
    type: "rate_limit_error",
    message: "The project has reached its limit of unfinished jobs. Wait until some of them finish.",
    headers: retryAfter(10),
  },
  uploads_full: {
    status: 429,
    type: "rate_limit_error",
    message:
      "The project has reached its limit of uploads that wait for a job; details has the limits. Create jobs for them, or wait until some expire.",
    // Only the caller's own jobs or an expiry make room, so sending the whole file again after a pause rarely helps.
    headers: { ...retryAfter(60), "x-should-retry": "false" },
  },
  storage_full: {
    status: 429,
    type: "rate_limit_error",
    message:
      "The project has reached its limit of kept uploads and results; details has the limit and what is kept. Delete the data of finished jobs, or wait until some expires.",
    headers: { ...retryAfter(60), "x-should-retry": "false" },
  },
  headers_too_large: {
    status: 431,
    type: "invalid_request_error",
    message: "The request line and headers must be at most 16384 bytes.",
  },
  internal_error: {
    status: 500,
    type: "api_error",
    message: "The service failed to handle the request. Include error.request_id when you report the problem.",
  },
  service_unavailable: {
    status: 503,
    type: "api_error",
    message: "The service is temporarily unavailable. Repeat the request, with the same Idempotency-Key if it has one.",
    headers: retryAfter(5),
  },
} as const satisfies Entries & Readonly<Record<string, ErrorEntry>>

export type RefusalCode = keyof typeof entries
export const errorCatalogue: Readonly<Record<RefusalCode, ErrorEntry>> = entries
export const refusalCodes = Object.keys(entries) as ReadonlyArray<RefusalCode>

/** The body of every error. `param` and `details` are `null` if they do not apply. */
export interface ErrorEnvelope {
  readonly error: {
    readonly type: ErrorType
    readonly code: RefusalCode
    readonly message: string
    readonly param: string | null
    readonly details: Readonly<Record<string, unknown>> | null
    readonly request_id: string
  }
}

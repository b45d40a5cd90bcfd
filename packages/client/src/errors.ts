import type { ErrorEnvelope, ErrorType, RefusalCode } from "./api/ErrorCatalogue.ts"
import type { FieldProblem, JobErrorCode } from "./wire.ts"

type Envelope = ErrorEnvelope["error"]

/**
 * The service, or a proxy in front of it, refused the request. `code` is for programs: one of the service's codes
 * (docs/errors.md), or `unexpected_response` if the response did not come from the service.
 */
export class ApiError extends Error {
  override readonly name = "ApiError"
  /** HTTP status. */
  readonly status: number
  readonly code: RefusalCode | "unexpected_response"
  /** The type of error; groups codes. */
  readonly type: ErrorType
  /** The first offending field; `null` if no field is invalid. */
  readonly param: string | null
  /** Further details by code, as documented for `error.details`. */
  readonly details: Readonly<Record<string, unknown>> | null
  /** Include it when you report a problem. */
  readonly requestId: string | null
  /** The response's `Retry-After`, in milliseconds. */
  readonly retryAfterMs: number | null
  readonly headers: Headers

  constructor(response: Response, envelope: Envelope | undefined) {
    super(envelope === undefined ? `HTTP ${response.status}` : `${envelope.code}: ${envelope.message}`)
    this.status = response.status
    this.code = envelope?.code ?? "unexpected_response"
    this.type = envelope?.type ?? "api_error"
    this.param = envelope?.param ?? null
    this.details = envelope?.details ?? null
    this.requestId = envelope?.request_id ?? response.headers.get("x-request-id")
    this.retryAfterMs = retryAfterMs(response.headers)
    this.headers = response.headers
  }

  /** The invalid fields of an `invalid_request`; otherwise empty. */
  get fieldProblems(): ReadonlyArray<FieldProblem> {
    const problems = this.code === "invalid_request" ? this.details?.["errors"] : undefined
    return Array.isArray(problems) ? (problems as ReadonlyArray<FieldProblem>) : []
  }
}

/** No response arrived, even after retries; `cause` says why. It is unknown whether the request took effect. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost"
  readonly code = "connection_lost"

  constructor(cause: unknown) {
    super("the service did not respond", { cause })
  }
}

/** The job did not finish within the timeout. It keeps running; you can wait again. */
export class WaitTimeout extends Error {
  override readonly name = "WaitTimeout"
  readonly code = "wait_timeout"
  readonly jobId: string

  constructor(jobId: string, timeoutMs: number) {
    super(`the job ${jobId} did not finish within ${timeoutMs} ms; it keeps running`)
    this.jobId = jobId
  }
}

/** The job failed, or its data is deleted. `code` is its `error_code`, or `data_deleted` or `data_expired`. */
export class JobFailed extends Error {
  override readonly name = "JobFailed"
  readonly code: JobErrorCode | "data_deleted" | "data_expired"
  readonly jobId: string
  /** The state that polling returned. */
  readonly state: object

  constructor(state: JobEnd) {
    const code = state.error_code ?? (state.warning_code === "data_expired" ? "data_expired" : "data_deleted")
    super(`the job ${state.id} has no result: ${code}${state.error_message ? `: ${state.error_message}` : ""}`)
    this.code = code
    this.jobId = state.id
    this.state = state
  }
}

interface JobEnd {
  readonly id: string
  readonly error_code?: JobErrorCode | null
  readonly error_message?: string
  readonly warning_code?: string | null
}

/** Returns `Retry-After` in milliseconds. The service sends seconds; a date, which proxies may send, is ignored. */
export const retryAfterMs = (headers: Headers): number | null => {
  const seconds = headers.get("retry-after")
  return seconds !== null && /^\d{1,9}$/.test(seconds) ? Number(seconds) * 1000 : null
}

/** Builds the error for a response. */
export const readApiError = (response: Response, text: string): ApiError => new ApiError(response, envelopeIn(text))

/** Returns the body of an error, if it came from the service. */
export const envelopeIn = (text: string): Envelope | undefined => {
  try {
    const body = JSON.parse(text) as Partial<ErrorEnvelope> | null
    const error: Partial<Envelope> | undefined = body?.error
    return typeof error?.code === "string" && typeof error.message === "string" ? (error as Envelope) : undefined
  } catch {
    return undefined
  }
}

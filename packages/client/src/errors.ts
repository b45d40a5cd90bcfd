import type { ErrorEnvelope, ErrorType, RefusalCode } from "./api/ErrorCatalogue.ts"
import type { FieldProblem } from "./wire.ts"

type Envelope = ErrorEnvelope["error"]

/**
 * The service refused, or something in front of it did. `code` is for programs and comes from the list of the service
 * (docs/errors.md); it is `unexpected_response` where the answer was not the service's own.
 */
export class ApiError extends Error {
  override readonly name = "ApiError"
  /** HTTP status. */
  readonly status: number
  readonly code: RefusalCode | "unexpected_response"
  /** What kind of thing went wrong; groups codes. */
  readonly type: ErrorType
  /** The first offending field, if a field is to blame. */
  readonly param: string | null
  /** More about it, by code: what is documented for `error.details`. */
  readonly details: Readonly<Record<string, unknown>> | null
  /** Quote it when you report a problem. */
  readonly requestId: string | null
  /** As the service asked for with `Retry-After`, in milliseconds. */
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

  /** Every field that breaks its rule, of an `invalid_request`; otherwise none. */
  get fieldProblems(): ReadonlyArray<FieldProblem> {
    const problems = this.code === "invalid_request" ? this.details?.["errors"] : undefined
    return Array.isArray(problems) ? (problems as ReadonlyArray<FieldProblem>) : []
  }
}

/** No answer arrived, however often it was asked: `cause` says why. Whether the service has done it is not known. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost"
  readonly code = "connection_lost"

  constructor(cause: unknown) {
    super("no answer from the service", { cause })
  }
}

/** A job was not finished in the time it was waited for. It goes on: wait again, as long as you like. */
export class WaitTimeout extends Error {
  override readonly name = "WaitTimeout"
  readonly code = "wait_timeout"
  readonly jobId: string

  constructor(jobId: string, timeoutMs: number) {
    super(`the job ${jobId} is not finished after ${timeoutMs} ms`)
    this.jobId = jobId
  }
}

/** `Retry-After` in milliseconds. The service sends seconds; a date, which proxies may send, counts as nothing. */
export const retryAfterMs = (headers: Headers): number | null => {
  const seconds = headers.get("retry-after")
  return seconds !== null && /^\d{1,9}$/.test(seconds) ? Number(seconds) * 1000 : null
}

/** The error an answer is made of. */
export const readApiError = (response: Response, text: string): ApiError => new ApiError(response, envelopeIn(text))

/** The body of a refusal, if it is one of the service. */
export const envelopeIn = (text: string): Envelope | undefined => {
  try {
    const body = JSON.parse(text) as Partial<ErrorEnvelope> | null
    const error: Partial<Envelope> | undefined = body?.error
    return typeof error?.code === "string" && typeof error.message === "string" ? (error as Envelope) : undefined
  } catch {
    return undefined
  }
}

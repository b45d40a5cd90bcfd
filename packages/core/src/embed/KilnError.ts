import type { FieldError } from "../domain/FieldError.ts"
import { isError } from "../domain/realms.ts"

/** Every code an operation can be refused with: those of the HTTP service, and a few more. */
export type KilnErrorCode =
  | "invalid_request"
  | "idempotency_key_reused"
  | "live_not_active"
  | "queue_full"
  | "uploads_full"
  | "job_not_found"
  | "job_processing"
  | "job_finished"
  | "job_not_retryable"
  | "kind_unknown"
  | "wait_timeout"
  | "upload_not_found"
  | "upload_not_ready"
  | "upload_already_used"
  | "upload_expired"
  | "upload_already_completed"
  | "upload_in_progress"
  | "upload_timeout"
  | "unsupported_content_type"
  | "file_too_large"
  | "empty_file"
  | "audio_format_mismatch"
  | "file_gone"
  | "service_unavailable"
  | "internal_error"

/** What an operation of the engine rejects with when it is refused or fails. Switch over `code`, or ask for the class. */
export class KilnError extends Error {
  override readonly name: string = "KilnError"
  readonly code: KilnErrorCode

  constructor(code: KilnErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }

  /** Whether the same call may succeed later without anything being changed. */
  get retryable(): boolean {
    return retryable.has(this.code)
  }
}

const retryable: ReadonlySet<KilnErrorCode> = new Set([
  "queue_full",
  "uploads_full",
  "job_processing",
  "upload_not_ready",
  "upload_in_progress",
  "upload_timeout",
  "wait_timeout",
  "service_unavailable",
])

/** The request breaks rules of its fields; every one of them is listed. */
export class RequestInvalid extends KilnError {
  override readonly name = "RequestInvalid"
  readonly errors: ReadonlyArray<FieldError>

  constructor(errors: ReadonlyArray<FieldError>) {
    super("invalid_request", errors.map(({ field, message }) => `${field || "the request"}: ${message}`).join("; "))
    this.errors = errors
  }
}

/** Prices, switches or providers that a live job needs and that are not there. */
export class LiveNotReady extends KilnError {
  override readonly name = "LiveNotReady"
  /** `price:svc-audio`, `switch:ai`, `provider:transcription`, … */
  readonly missing: ReadonlyArray<string>

  constructor(missing: ReadonlyArray<string>) {
    super("live_not_active", `live jobs are missing ${missing.join(", ")}`)
    this.missing = missing
  }
}

/** No job of this id, or not of this project. */
export class JobUnknown extends KilnError {
  override readonly name = "JobUnknown"
  constructor() {
    super("job_not_found", "no such job")
  }
}

/** The idempotency key belongs to a job that asked for something else. */
export class KeyReused extends KilnError {
  override readonly name = "KeyReused"
  constructor() {
    super("idempotency_key_reused", "the idempotency key belongs to another request")
  }
}

/** The job was not finished within the time that was waited for it. It goes on. */
export class WaitTimeout extends KilnError {
  override readonly name = "WaitTimeout"
  /** Milliseconds. */
  readonly afterMs: number

  constructor(afterMs: number) {
    super("wait_timeout", `the job was not finished within ${afterMs} ms`)
    this.afterMs = afterMs
  }
}

/** The upload cannot be used, or cannot take this file; `code` says why. */
export class UploadRefused extends KilnError {
  override readonly name = "UploadRefused"
}

/** A store is out of reach. Nothing is known about what was to be written; every call may be repeated, a submission with its idempotency key. */
export class ServiceUnavailable extends KilnError {
  override readonly name = "ServiceUnavailable"
  constructor(cause: unknown) {
    const why = isError(cause) && cause.message !== "" ? `: ${cause.message}` : ""
    super("service_unavailable", `a store is out of reach${why}`, { cause })
  }
}

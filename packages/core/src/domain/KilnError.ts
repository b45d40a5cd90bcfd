/**
 * Every error that an operation of the engine fails with: its code, and whether the same call may succeed later without any other
 * change. The code is the name in `snake_case`, over HTTP as well. Failures of ports are the exception: their code says what they
 * mean to a caller, and the log says which store is unavailable.
 */
export const kilnErrors = {
  InvalidRequest: { code: "invalid_request", retryable: false },
  IdempotencyKeyReused: { code: "idempotency_key_reused", retryable: false },
  LiveNotActive: { code: "live_not_active", retryable: false },
  SpendCapReached: { code: "spend_cap_reached", retryable: false },
  QueueFull: { code: "queue_full", retryable: true },
  UploadsFull: { code: "uploads_full", retryable: true },
  StorageFull: { code: "storage_full", retryable: true },
  JobNotFound: { code: "job_not_found", retryable: false },
  PrerequisiteNotFound: { code: "prerequisite_not_found", retryable: false },
  JobProcessing: { code: "job_processing", retryable: true },
  JobFinished: { code: "job_finished", retryable: false },
  JobNotWaiting: { code: "job_not_waiting", retryable: true },
  JobNotDelivered: { code: "job_not_delivered", retryable: false },
  JobNotRetryable: { code: "job_not_retryable", retryable: false },
  RequestsHidden: { code: "requests_hidden", retryable: false },
  KindUnknown: { code: "kind_unknown", retryable: false },
  WaitTimeout: { code: "wait_timeout", retryable: true },
  UploadNotFound: { code: "upload_not_found", retryable: false },
  UploadNotReady: { code: "upload_not_ready", retryable: true },
  UploadAlreadyUsed: { code: "upload_already_used", retryable: false },
  UploadExpired: { code: "upload_expired", retryable: false },
  UploadAlreadyCompleted: { code: "upload_already_completed", retryable: false },
  UploadInProgress: { code: "upload_in_progress", retryable: true },
  UploadTimeout: { code: "upload_timeout", retryable: true },
  UnsupportedContentType: { code: "unsupported_content_type", retryable: false },
  FileTooLarge: { code: "file_too_large", retryable: false },
  EmptyFile: { code: "empty_file", retryable: false },
  AudioFormatMismatch: { code: "audio_format_mismatch", retryable: false },
  FileGone: { code: "file_gone", retryable: false },
  StoreUnavailable: { code: "service_unavailable", retryable: true },
  BlobUnavailable: { code: "service_unavailable", retryable: true },
  BlobCorrupt: { code: "internal_error", retryable: false },
} as const

export type KilnErrorName = keyof typeof kilnErrors
/** The possible values of a `KilnError`'s `code`. */
export type KilnErrorCode = (typeof kilnErrors)[KilnErrorName]["code"]

/**
 * The base of every error that an operation of the engine fails with, as an Effect or as a promise. Switch over `code` or
 * `_tag`, or test with `instanceof`.
 */
export class KilnError<Name extends KilnErrorName = KilnErrorName> extends Error {
  override readonly name: Name
  /** The name again, for `Effect.catchTag`. */
  readonly _tag: Name
  readonly code: (typeof kilnErrors)[Name]["code"]

  constructor(name: Name, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = name
    this._tag = name
    this.code = kilnErrors[name].code
  }

  /** Whether the same call may succeed later without any other change. */ get retryable(): boolean {
    return kilnErrors[this.name].retryable
  }
}

/** The rejection of a call of an engine that has been stopped. Like the abort reason of a signal, its name is `AbortError`. */
export class EngineClosed extends Error {
  override readonly name = "AbortError"
  readonly code = "engine_closed"
  /** The same call never succeeds: create another engine. */
  readonly retryable = false

  constructor() {
    super("the engine is closed")
  }
}

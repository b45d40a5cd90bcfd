import type { FieldError } from "./FieldError.ts"
import { unknownName } from "./givenValues.ts"
import type { JobId, ProjectId } from "./Ids.ts"
import { KilnError } from "./KilnError.ts"
import { type SpendRefusal, spendRefusalReason } from "./SpendCap.ts"

/** Fields of the request break their rules. `errors` lists every one of them. */
export class InvalidRequest extends KilnError<"InvalidRequest"> {
  readonly errors: ReadonlyArray<FieldError>

  constructor({ errors }: { readonly errors: ReadonlyArray<FieldError> }) {
    const problems = errors.map(({ field, message }) => `${field || "the request"}: ${message}`)
    super("InvalidRequest", problems.join("; "))
    this.errors = errors
  }
}

/** The idempotency key belongs to a job with a different request. */
export class IdempotencyKeyReused extends KilnError<"IdempotencyKeyReused"> {
  /** The job that the key belongs to. */
  readonly jobId: JobId
  readonly kind: string

  constructor({ jobId, kind }: { readonly jobId: JobId; readonly kind: string }) {
    super("IdempotencyKeyReused", "the idempotency key belongs to a job with a different request; use a new key")
    this.jobId = jobId
    this.kind = kind
  }
}

/** A live job needs prices, switches or providers that are missing. */
export class LiveNotActive extends KilnError<"LiveNotActive"> {
  /** `price:svc-audio`, `switch:ai`, `provider:transcription`, … */
  readonly missing: ReadonlyArray<string>

  constructor({ missing }: { readonly missing: ReadonlyArray<string> }) {
    super("LiveNotActive", `live jobs of this kind are not active; missing: ${missing.join(", ")}`)
    this.missing = missing
  }
}

/** The job could pass a spend cap of its key or project. It was not created and costs nothing. */
export class SpendCapReached extends KilnError<"SpendCapReached"> {
  /** Whose cap it is. */
  readonly owner: "key" | "project"
  /** `cap`: the job could pass it; `unbounded`: nothing states what the job costs at most; `currency`: the price has another one. */
  readonly reason: SpendRefusal["reason"]
  /** The currency of the job's price. */
  readonly currency: string
  /** The job's maximum cost, as an exact decimal; `null` if it is not bounded. */
  readonly maximumCost: string | null
  /** The period whose cap the job could pass; `null` for the other reasons. */
  readonly period: SpendRefusal["period"]
  /** When the period ends and the job may fit; `null` if waiting does not help. */
  readonly resetsAt: Date | null

  constructor(refusal: SpendRefusal) {
    super("SpendCapReached", spendRefusalReason(refusal))
    const { currency, maximumCost, owner, period, reason, resetsAt } = refusal
    this.owner = owner
    this.reason = reason
    this.currency = currency
    this.maximumCost = maximumCost
    this.period = period
    this.resetsAt = resetsAt === null ? null : new Date(resetsAt)
  }
}

/** The project has reached its limit of unfinished jobs (`queueCap`). */
export class QueueFull extends KilnError<"QueueFull"> {
  readonly projectId: ProjectId
  /** The limit. */
  readonly limit: number

  constructor({ limit, projectId }: { readonly limit: number; readonly projectId: ProjectId }) {
    super(
      "QueueFull",
      `the project ${projectId} has ${limit} unfinished jobs, its limit (settings.queueCap, KILN_QUEUE_CAP of the server); wait until some have finished`,
    )
    this.projectId = projectId
    this.limit = limit
  }
}

/** The project has reached its limit of uploads that wait for jobs, or of their bytes (`uploadCap`). */
export class UploadsFull extends KilnError<"UploadsFull"> {
  /** The limit of uploads; 0 means no limit. */
  readonly uploads: number
  /** The limit of their bytes; 0 means no limit. */
  readonly bytes: number

  constructor({ bytes, uploads }: { readonly uploads: number; readonly bytes: number }) {
    const limits = [uploads > 0 ? `${uploads} uploads` : "", bytes > 0 ? `${bytes} bytes` : ""].filter(Boolean)
    super(
      "UploadsFull",
      `the project has reached its limit of uploads waiting for a job (${limits.join(", ")}); create jobs for them, or wait until some expire`,
    )
    this.uploads = uploads
    this.bytes = bytes
  }
}

/** The project has reached its limit of bytes that it keeps in this mode, in uploads and results (`storageCap`). */
export class StorageFull extends KilnError<"StorageFull"> {
  /** The limit. */
  readonly maxBytes: number
  /** Bytes of uploads that are kept or being sent; those of used ones go with the data of their jobs. */
  readonly uploadBytes: number
  /** Bytes of finished jobs' files. */
  readonly resultBytes: number

  constructor(sizes: { readonly maxBytes: number; readonly uploadBytes: number; readonly resultBytes: number }) {
    const { maxBytes, resultBytes, uploadBytes } = sizes
    super(
      "StorageFull",
      `the project has reached its limit of ${maxBytes} bytes that it keeps (${uploadBytes} of uploads, ${resultBytes} of results); erase the data of finished jobs, or wait until some expires`,
    )
    this.maxBytes = maxBytes
    this.uploadBytes = uploadBytes
    this.resultBytes = resultBytes
  }
}

/** No job has this id, or it belongs to another project. */
export class JobNotFound extends KilnError<"JobNotFound"> {
  constructor() {
    super("JobNotFound", "no job with this id, or it belongs to another project")
  }
}

/** A job of `after` does not exist, or belongs to another project or mode. */
export class PrerequisiteNotFound extends KilnError<"PrerequisiteNotFound"> {
  readonly jobId: string

  constructor({ jobId }: { readonly jobId: string }) {
    super(
      "PrerequisiteNotFound",
      `after: there is no job ${jobId} in the project and mode of the new job; name jobs of the same project and mode, in one transaction with them if they are not committed yet`,
    )
    this.jobId = jobId
  }
}

/** The job is not finished, and only a finished job can be erased. */
export class JobProcessing extends KilnError<"JobProcessing"> {
  constructor() {
    super("JobProcessing", "the job is not finished; wait for it or cancel it, then erase its data")
  }
}

/** The job is already finished and cannot be canceled. */
export class JobFinished extends KilnError<"JobFinished"> {
  constructor() {
    super("JobFinished", "the job is finished already")
  }
}

/** The job runs, or waits for an event and not for a time. */
export class JobNotWaiting extends KilnError<"JobNotWaiting"> {
  readonly reason: "running" | "parked"

  constructor({ reason }: { readonly reason: "running" | "parked" }) {
    super(
      "JobNotWaiting",
      reason === "running"
        ? "a worker runs the job, so its start cannot be changed"
        : "the job waits for prerequisites, children, a signal or a sleep, which promote and reschedule do not end",
    )
    this.reason = reason
  }
}

/** The job is not finished, or was accepted without an `onFinished` for its kind. */
export class JobNotDelivered extends KilnError<"JobNotDelivered"> {
  readonly reason: "unfinished" | "no_handler"

  constructor({ reason }: { readonly reason: "unfinished" | "no_handler" }) {
    super(
      "JobNotDelivered",
      reason === "unfinished"
        ? "the job is not finished; onFinished is called when it is"
        : "the job was accepted by a program without onFinished for its kind",
    )
    this.reason = reason
  }
}

/** The settings keep requests from operators. */
export class RequestsHidden extends KilnError<"RequestsHidden"> {
  constructor() {
    super(
      "RequestsHidden",
      "requests are hidden from operators (settings.operatorSeesRequests, or KILN_OPERATOR_REQUESTS)",
    )
  }
}

interface Unretryable {
  readonly duplicateOf?: JobId | undefined
  readonly retriedAs?: JobId | undefined
  /** The field of the request that names another upload than that of the failed job. */
  readonly uploadField?: string | undefined
}

const unretryable = ({ duplicateOf, retriedAs, uploadField }: Unretryable): string => {
  if (duplicateOf !== undefined)
    return `the job is unique, and ${duplicateOf} has taken its place: wait for that job, or cancel it first`
  if (retriedAs !== undefined)
    return `the job was retried as ${retriedAs}, with another request: if that job fails, retry it with the changed request`
  if (uploadField !== undefined)
    return `a changed request must name the same upload as before in ${uploadField}: submit a request with another upload as a new job`
  return "only a failed job that still has its data can be retried"
}

/**
 * The job did not fail, or its data is gone, or another job has the scope of its `unique`, or it cannot be retried with the changed
 * request.
 */
export class JobNotRetryable extends KilnError<"JobNotRetryable"> {
  /** The job that has the scope. */
  readonly duplicateOf: JobId | undefined
  /** The retry of the job, which has another request than the changed one. */
  readonly retriedAs: JobId | undefined

  constructor(reason: Unretryable = {}) {
    super("JobNotRetryable", unretryable(reason))
    this.duplicateOf = reason.duplicateOf
    this.retriedAs = reason.retriedAs
  }
}

/** The engine has no kind of this name. */
export class KindUnknown extends KilnError<"KindUnknown"> {
  readonly kind: string
  /** The kinds it has. */
  readonly known: ReadonlyArray<string>

  /** `kind`: a name, or what JavaScript code gave instead of one. */
  constructor({ kind, known }: { readonly kind: unknown; readonly known: ReadonlyArray<string> }) {
    const name = String(kind)
    super("KindUnknown", unknownName(`job kind "${name}"`, name, known))
    this.kind = name
    this.known = known
  }
}

/** The job did not finish while the caller waited. It keeps running. */
export class WaitTimeout extends KilnError<"WaitTimeout"> {
  /** Milliseconds. */
  readonly afterMs: number

  constructor({ afterMs }: { readonly afterMs: number }) {
    super(
      "WaitTimeout",
      `the job did not finish within ${afterMs} ms and goes on; operator.waitingFor(job) says what it waits for`,
    )
    this.afterMs = afterMs
  }
}

/** No upload has this id, or it belongs to another caller. */
export class UploadNotFound extends KilnError<"UploadNotFound"> {
  constructor() {
    super("UploadNotFound", "no upload with this id, or it belongs to another project or mode")
  }
}

/** The upload's file has not arrived yet. */
export class UploadNotReady extends KilnError<"UploadNotReady"> {
  constructor() {
    super("UploadNotReady", "the upload's file has not arrived yet; send it first")
  }
}

/** Another job has used the upload. */
export class UploadAlreadyUsed extends KilnError<"UploadAlreadyUsed"> {
  constructor() {
    super("UploadAlreadyUsed", "another job has used this upload; create a new one")
  }
}

/** The time to send the upload's file, or to use it, is over. */
export class UploadExpired extends KilnError<"UploadExpired"> {
  constructor() {
    super("UploadExpired", "the upload has expired; create a new one")
  }
}

/** The upload's file has already arrived. */
export class UploadAlreadyCompleted extends KilnError<"UploadAlreadyCompleted"> {
  constructor() {
    super("UploadAlreadyCompleted", "the upload's file has already arrived")
  }
}

/** Another transfer of the upload is in progress. */
export class UploadInProgress extends KilnError<"UploadInProgress"> {
  constructor() {
    super("UploadInProgress", "another transfer of this upload is in progress")
  }
}

/** The transfer stalled or took too long. */
export class UploadTimeout extends KilnError<"UploadTimeout"> {
  constructor() {
    super("UploadTimeout", "the transfer stalled or took too long; send the whole file again")
  }
}

/** The content type does not belong to the declared format. */
export class UnsupportedContentType extends KilnError<"UnsupportedContentType"> {
  readonly expected: ReadonlyArray<string>

  constructor({ expected }: { readonly expected: ReadonlyArray<string> }) {
    super("UnsupportedContentType", `the content type must be one of ${expected.join(", ")}`)
    this.expected = expected
  }
}

/** The file is larger than the upload's limit. */
export class FileTooLarge extends KilnError<"FileTooLarge"> {
  /** Inclusive. */
  readonly maxBytes: number

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    super("FileTooLarge", `the file must have at most ${maxBytes} bytes`)
    this.maxBytes = maxBytes
  }
}

/** The file has no bytes. */
export class EmptyFile extends KilnError<"EmptyFile"> {
  constructor() {
    super("EmptyFile", "the file is empty")
  }
}

/** The file is not in the declared format. */
export class AudioFormatMismatch extends KilnError<"AudioFormatMismatch"> {
  readonly declared: string
  /** `null` when they belong to no known audio format. */
  readonly detected: string | null
  /** Whether it looks like text, such as base64 or a web page. */
  readonly isText: boolean

  constructor({
    declared,
    detected,
    isText = false,
  }: {
    readonly declared: string
    readonly detected: string | null
    readonly isText?: boolean
  }) {
    const found = detected !== null ? `is ${detected}` : isText ? "looks like text" : "is in no known audio format"
    super("AudioFormatMismatch", `the file was declared as ${declared}, but ${found}`)
    this.declared = declared
    this.detected = detected
    this.isText = isText
  }
}

/** The file went with its job's data, which was erased or has expired. */
export class FileGone extends KilnError<"FileGone"> {
  constructor() {
    super("FileGone", "no file with this id, or its job's data was erased or has expired")
  }
}

import type { JobMode } from "./Access.ts"
import type { Charge, LineItem, PriceSnapshot } from "./Billing.ts"
import type { WarningCode } from "./ErrorCode.ts"
import type { FileId, JobId, KeyId, ProjectId, UploadId } from "./Ids.ts"
import type { Json, JsonObject } from "./givenValues.ts"
import type { JobState, JobStatus } from "./JobState.ts"
import type { Priority } from "./Priority.ts"
import { type Progress, progressOf } from "./Progress.ts"

/** A blob that belongs to a job's output. `name` is unique within the job, for example `audio`. */
export interface OutputFile {
  readonly id: FileId
  readonly name: string
  readonly blobKey: string
  /** For example `audio/mpeg`; authoritative for downloads. */
  readonly mediaType: string
  readonly bytes: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** The part of a job that changes after it was accepted only if a later submission replaces its request, before its first attempt. */
export interface JobOrigin {
  readonly id: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly mode: JobMode
  /** The job kind's name, for example `transcription`. */
  readonly kind: string
  /** The version of the kind that accepted the request. Only workers that know this version run the job. */
  readonly kindVersion: number
  /** The upload it consumes; also `null` after a retry of this job has taken it over. */
  readonly uploadId: UploadId | null
  /** The only part that an operator may change, while the job waits. */
  readonly priority: Priority
  readonly idempotencyKey: string
  /**
   * Keyed digest of the request, lower-case hex: distinguishes a repeated request from a reused key without storing the prompt.
   * Empty for a job without an idempotency key.
   */
  readonly fingerprint: string
  /** The price in force at acceptance; `null` for sandbox jobs. */
  readonly price: PriceSnapshot | null
  /** Fields of the request that are not the caller's data. They stay when it is erased, for as long as the record exists. */
  readonly metadata: JsonObject
  /** Unix milliseconds, store time. */
  readonly createdAt: number
}

/** The state of the job's data: kept, or the way in which it was removed. */
export type RetainedData = "kept" | "deleted" | "expired"

/** A job as recorded in the store. */
export interface Job extends JobOrigin, JobState {
  readonly retained: RetainedData
  /** The decoded request; `null` once its data is gone. */
  readonly request: JsonObject | null
  /**
   * Results of finished steps by name, so that a retry does not pay for them again. Empty once the job is done. A failed job keeps them
   * with its data, for `operator.retry`.
   */
  readonly checkpoints: Readonly<Record<string, Json>>
  /** The kind's output without its files, or what a failed job tells its caller (`failedOutput`); `null` once its data is gone. */
  readonly output: JsonObject | null
  readonly files: ReadonlyArray<OutputFile>
  readonly warningCode: WarningCode | null
  /** Set on every live job that is done, and on no other. */
  readonly charge: Charge | null
}

/** The part of a job that its caller polls for. */
export interface PolledJob extends Pick<
  Job,
  "id" | "kind" | "mode" | "status" | "retained" | "output" | "errorCode" | "warningCode" | "charge"
> {
  readonly price: Pick<PriceSnapshot, "currency"> | null
  readonly progress: Progress | null
  readonly files: ReadonlyArray<Pick<OutputFile, "id" | "name">>
}

/** Returns the part of a job that its caller polls for. */
export const polledJob = (job: Job): PolledJob => ({
  id: job.id,
  kind: job.kind,
  mode: job.mode,
  status: job.status,
  retained: job.retained,
  output: job.output,
  errorCode: job.errorCode,
  warningCode: job.warningCode,
  charge: job.charge,
  price: job.price && { currency: job.price.currency },
  progress: progressOf(job),
  files: job.files.map(({ id, name }) => ({ id, name })),
})

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

/** The charge as a caller sees it. */
export interface Billing {
  readonly status: "pending" | "charged" | "not_charged"
  readonly currency: string
  readonly amount: string | null
  readonly lineItems: ReadonlyArray<LineItem>
}

/** `pending` while a live job is unfinished, `charged` when it is done, `not_charged` when it failed and for every sandbox job. */
export const billingOf = (
  job: {
    readonly mode: JobMode
    readonly status: JobStatus
    readonly price: Pick<PriceSnapshot, "currency"> | null
    readonly charge: Charge | null
  },
  defaultCurrency: string,
): Billing => {
  const currency = job.charge?.currency ?? job.price?.currency ?? defaultCurrency
  if (job.charge !== null) return { status: "charged", ...job.charge }
  if (job.mode === "live" && job.status !== "failed" && job.status !== "done")
    return { status: "pending", currency, amount: null, lineItems: [] }
  return { status: "not_charged", currency, amount: "0", lineItems: [] }
}

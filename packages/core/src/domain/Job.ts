import type { JobMode } from "./Access.ts"
import type { Charge, PriceSnapshot } from "./Billing.ts"
import type { ErrorCode, WarningCode } from "./ErrorCode.ts"
import type { FileId, JobId, KeyId, ProjectId, UploadId } from "./Ids.ts"
import type { Json, JsonObject } from "./Json.ts"
import type { JobState } from "./JobState.ts"
import type { Priority } from "./Priority.ts"

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

/** What a caller asked for and what never changes afterwards. */
export interface JobOrigin {
  readonly id: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly mode: JobMode
  /** The job kind's name, for example `transcription`. */
  readonly kind: string
  /** The kind's version by which the request was accepted: who runs the job must know it. */
  readonly kindVersion: number
  /** The upload it consumes; `null` also once a retry of this job took it over. */
  readonly uploadId: UploadId | null
  readonly priority: Priority
  readonly idempotencyKey: string
  /** Keyed digest of the request, lower-case hex: tells a repeat from a reuse without keeping the prompt. */
  readonly fingerprint: string
  /** The price in force at acceptance; `null` for sandbox jobs. */
  readonly price: PriceSnapshot | null
  /** Fields of the request that are not the caller's data: they stay when it is erased. As long as the record. */
  readonly kept: JsonObject
  /** Unix milliseconds, store time. */
  readonly createdAt: number
}

/** Whether what the job retains is still there, or how it went. */
export type RetainedData = "kept" | "deleted" | "expired"

/** A job as the store knows it. */
export interface Job extends JobOrigin, JobState {
  readonly retained: RetainedData
  /** The decoded request; `null` once its data is gone. */
  readonly request: JsonObject | null
  /** Finished steps by name, so that a retry does not buy them again. Empty once finished. */
  readonly checkpoints: Readonly<Record<string, Json>>
  /** The kind's output without its files; `null` until done and once its data is gone. */
  readonly output: JsonObject | null
  readonly files: ReadonlyArray<OutputFile>
  readonly warningCode: WarningCode | null
  /** Set exactly on live jobs that are done. */
  readonly charge: Charge | null
}

export type { ErrorCode, WarningCode }

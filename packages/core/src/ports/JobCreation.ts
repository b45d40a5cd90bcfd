import type {
  Gate,
  Job,
  JobId,
  JobLimits,
  JobMode,
  JsonObject,
  KeyId,
  Priority,
  ProjectId,
  SwitchName,
  UploadId,
  UploadRefusal,
} from "../domain/index.ts"

/** A job to be accepted. */
export interface NewJob {
  readonly id: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly mode: JobMode
  readonly kind: string
  /** The version of the kind the request was made for, at least 1. */
  readonly kindVersion: number
  readonly request: JsonObject
  readonly priority: Priority
  /** Milliseconds before which it is not claimed; 0 begins at once. Its queue limit counts from then on. */
  readonly delayMs: number
  /** Fields of the request that stay when its data is erased. */
  readonly kept: JsonObject
  /**
   * The failed job this one is another try of; `null` for all others. It must belong to the same key, be failed and have its
   * data, and what it consumed goes over to this one in the same transaction: `uploadId` is that of the failed job then.
   */
  readonly retryOf: JobId | null
  /** Consumed by this job in the same transaction. */
  readonly uploadId: UploadId | null
  /** Transfers an upload allows: after the last one failed, nothing can arrive any more. */
  readonly maxTransfers: number
  readonly idempotencyKey: string
  readonly fingerprint: string
  /** `null` for sandbox jobs, which need no prerequisites and cost nothing. */
  readonly gate: Gate | null
  /** Switches this process's environment forces off. */
  readonly forcedOff: ReadonlyArray<SwitchName>
  readonly limits: JobLimits
  /** Unfinished jobs its project may have, this one included; 0 is no cap. */
  readonly queueCap: number
}

/** What became of one item of `createJobs`, in the order of precedence. */
export type CreateOutcome =
  /** The key's job already exists and asked for the same: this is it. */
  | { readonly _tag: "Replayed"; readonly job: Job }
  /** The key belongs to a job that asked for something else. */
  | { readonly _tag: "KeyReused" }
  /** There is no such failed job with its data any more. */
  | { readonly _tag: "NotRetryable" }
  | { readonly _tag: "GateClosed"; readonly missing: ReadonlyArray<string> }
  | { readonly _tag: "UploadRefused"; readonly reason: UploadRefusal }
  | { readonly _tag: "QueueFull" }
  | { readonly _tag: "Created"; readonly job: Job }

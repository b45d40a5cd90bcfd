import type { JobMode } from "../domain/Access.ts"
import type { ErrorCode } from "../domain/ErrorCode.ts"
import type { JobId, ProjectId } from "../domain/Ids.ts"
import type { Progress } from "../domain/Progress.ts"

/** The job an event is about. */
export interface JobRef {
  readonly jobId: JobId
  readonly kind: string
  readonly mode: JobMode
  readonly projectId: ProjectId
}

/** An event in the life of a job, as this process saw it. */
export type JobEvent =
  /** The job was accepted. Not emitted for a replay, or for a job created in a transaction of the caller. */
  | (JobRef & { readonly type: "queued" })
  /** A worker began an attempt, counted from 1. */
  | (JobRef & { readonly type: "active"; readonly attempt: number })
  /** An attempt of this process reported its progress, at most once a second. */
  | (JobRef & Progress & { readonly type: "progress"; readonly attempt: number })
  /** An attempt failed and another follows, in `retryInMs` milliseconds at the earliest. */
  | (JobRef & {
      readonly type: "attempt_failed"
      readonly attempt: number
      readonly errorCode: ErrorCode
      readonly retryInMs: number
      /** The error that the attempt threw. Messages of foreign code may quote a request: not for callers. */
      readonly error: unknown
      /** Duration of the attempt, in milliseconds. */
      readonly durationMs: number
    })
  /** A worker completed the job. */
  | (JobRef & { readonly type: "completed" })
  /** The job failed for good: in an attempt, at a deadline, canceled by an operator, or not accepted when it was to be created. */
  | (JobRef & {
      readonly type: "failed"
      readonly errorCode: ErrorCode
      /** The last attempt, with what it threw, if the job failed in an attempt of this process. */
      readonly attempt?: number
      readonly error?: unknown
      readonly durationMs?: number
    })
  /** The job's data was erased on request. */
  | { readonly type: "erased"; readonly jobId: JobId }

export type JobEventType = JobEvent["type"]

import type { JobMode } from "../domain/Access.ts"
import type { ErrorCode } from "../domain/ErrorCode.ts"
import type { JobId, ProjectId } from "../domain/Ids.ts"

/** Which job. */
export interface JobRef {
  readonly jobId: JobId
  readonly kind: string
  readonly mode: JobMode
  readonly projectId: ProjectId
}

/** What happened to a job in this process. */
export type JobHappening =
  /** It was accepted: not replayed, and not in a transaction of the caller's. */
  | (JobRef & { readonly type: "queued" })
  /** A worker began an attempt, counted from 1. */
  | (JobRef & { readonly type: "started"; readonly attempt: number })
  /** An attempt failed and another will follow, in `retryInMs` milliseconds at the earliest. */
  | (JobRef & {
      readonly type: "attempt_failed"
      readonly attempt: number
      readonly errorCode: ErrorCode
      readonly retryInMs: number
    })
  /** A worker completed it. */
  | (JobRef & { readonly type: "done" })
  /** It failed for good: by a worker, a sweep, or an operator's command. */
  | (JobRef & { readonly type: "failed"; readonly errorCode: ErrorCode })
  /** Its data was erased on request. */
  | { readonly type: "erased"; readonly jobId: JobId }

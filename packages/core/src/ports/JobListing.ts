import type { JobMode } from "../domain/Access.ts"
import type { ProjectId } from "../domain/Ids.ts"
import type { Job } from "../domain/Job.ts"
import type { JobStatus } from "../domain/JobState.ts"

/** A job as an operator's list shows it: no request, no output, nothing a caller may have erased. Times in unix milliseconds. */
export type JobSummary = Pick<
  Job,
  | "id"
  | "projectId"
  | "keyId"
  | "mode"
  | "kind"
  | "kindVersion"
  | "priority"
  | "status"
  | "errorCode"
  | "warningCode"
  | "retained"
  | "attempts"
  | "failures"
  | "lostWorkers"
  | "createdAt"
  | "claimableAt"
  | "finishedAt"
>

/** Which jobs. Everything that is given must hold. */
export interface JobQuery {
  readonly projectId?: ProjectId | undefined
  readonly kind?: string | undefined
  readonly mode?: JobMode | undefined
  readonly status?: JobStatus | undefined
  /** Unix milliseconds, inclusive. */
  readonly createdFrom?: number | undefined
  /** Unix milliseconds, exclusive. */
  readonly createdTo?: number | undefined
}

export interface JobPage extends JobQuery {
  /** Where the page before ended: its `next`. */
  readonly after?: string | undefined
  /** Jobs at most, at least 1. */
  readonly limit: number
}

export interface JobList {
  /** Newest first: by `createdAt`, then by `id`, both descending. */
  readonly jobs: ReadonlyArray<JobSummary>
  /**
   * Where the next page begins; `undefined` when this was the last. A page may be short, or empty, and not the last: a store
   * looks through a bounded number of rows for each.
   */
  readonly next: string | undefined
}

/** How many jobs of one kind, mode and status there are. */
export interface JobCount {
  readonly kind: string
  readonly mode: JobMode
  /** `delayed`: queued, and not to be claimed before some later time. */
  readonly status: JobStatus | "delayed"
  /** More than 0. */
  readonly count: number
}

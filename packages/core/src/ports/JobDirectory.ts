import { Context, type Effect } from "effect"
import type {
  ErrorCode,
  Job,
  JobId,
  JobMode,
  JobStatus,
  KeyId,
  Priority,
  ProjectId,
  RetainedData,
  StoreUnavailable,
  WarningCode,
} from "../domain/index.ts"

/** A job as an operator's list shows it: no request, no output, nothing a caller may have erased. */
export interface JobSummary {
  readonly id: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly mode: JobMode
  readonly kind: string
  readonly kindVersion: number
  readonly priority: Priority
  readonly status: JobStatus
  readonly errorCode: ErrorCode | null
  readonly warningCode: WarningCode | null
  readonly retained: RetainedData
  /** Claims so far. */
  readonly attempts: number
  readonly failures: number
  readonly lostWorkers: number
  /** Unix milliseconds, like all times here. */
  readonly createdAt: number
  /** When it may next be claimed, or its lease ends; `null` when finished. */
  readonly claimableAt: number | null
  readonly finishedAt: number | null
}

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

/** Jobs of all projects, for the operator. Reads only. */
export class JobDirectory extends Context.Service<
  JobDirectory,
  {
    /** A page of jobs. A cursor that no page gave is a defect (`TypeError`). */
    readonly listJobs: (page: JobPage) => Effect.Effect<JobList, StoreUnavailable>
    /**
     * All unfinished jobs, and those finished within the last `finishedWithinMs`, counted; of one project where it is given. By
     * kind, mode and status; what there is none of is left out.
     */
    readonly countJobs: (question: {
      readonly finishedWithinMs: number
      readonly projectId?: ProjectId | undefined
    }) => Effect.Effect<ReadonlyArray<JobCount>, StoreUnavailable>
    /** These jobs, whosever they are. */
    readonly readJobs: (jobIds: ReadonlyArray<JobId>) => Effect.Effect<ReadonlyArray<Job | undefined>, StoreUnavailable>
  }
>()("@kiln/core/ports/JobDirectory") {}

import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { ProjectId } from "../domain/Ids.ts"
import type { FailedAttempt, JobId, QueuePlace, StoreUnavailable, WaitRun } from "../domain/index.ts"
import type { Job } from "../domain/Job.ts"
import type { FinishedJob, JobCount, JobList, JobPage, QueueDepth } from "./JobListing.ts"

/** Reads jobs of all projects for the operator. */
export class JobDirectory extends Context.Service<
  JobDirectory,
  {
    /** Returns a page of jobs. An invalid cursor is a defect (`TypeError`). */
    readonly listJobs: (page: JobPage) => Effect.Effect<JobList, StoreUnavailable>
    /**
     * Counts all unfinished jobs, and those finished within the last `finishedWithinMs`, by kind, mode and status, optionally of
     * one project. Groups without jobs are omitted.
     */
    readonly countJobs: (question: {
      readonly finishedWithinMs: number
      /** False leaves out unfinished jobs, of which there may be very many. */
      readonly unfinished?: boolean | undefined
      readonly projectId?: ProjectId | undefined
      /** Only jobs that have all of these labels. */
      readonly labels?: ReadonlyArray<string> | undefined
    }) => Effect.Effect<ReadonlyArray<JobCount>, StoreUnavailable>
    /**
     * Measures the queue by kind and mode. Counts at most `limit` jobs, so that the cost is bounded; beyond that, the numbers are
     * too low, but the age of the oldest job is still exact. Groups without jobs are omitted. Sorted by kind and mode.
     */
    readonly measureQueue: (question: {
      readonly limit: number
      /** Measures the jobs of this project only. */
      readonly projectId?: ProjectId | undefined
    }) => Effect.Effect<ReadonlyArray<QueueDepth>, StoreUnavailable>
    /**
     * Lists the jobs that finished within the last `withinMs` milliseconds, newest end first: at most `limit`, which bounds the cost for
     * each kind.
     */
    readonly listFinished: (question: {
      readonly withinMs: number
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<FinishedJob>, StoreUnavailable>
    /** Returns where an unfinished job stands, and what it competes with; `undefined` for any other. Its cost is bounded. */
    readonly findPlace: (jobId: JobId) => Effect.Effect<QueuePlace | undefined, StoreUnavailable>
    /** Lists the kinds of all jobs that were ever created in this store, sorted. */
    readonly listKinds: Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
    /** Returns these jobs, regardless of owner. */
    readonly readJobs: (jobIds: ReadonlyArray<JobId>) => Effect.Effect<ReadonlyArray<Job | undefined>, StoreUnavailable>
    /**
     * Returns the newest `maxAttemptRecords` failed attempts of a job, oldest first; none once its data is gone. Returns `undefined`
     * for an unknown job. Only attempts whose worker reported a failure have a record: not those of lost workers.
     */
    readonly listAttempts: (jobId: JobId) => Effect.Effect<ReadonlyArray<FailedAttempt> | undefined, StoreUnavailable>
    /**
     * Returns, for each of these jobs, the newest `maxWaitRuns` runs of its attempts that ended to wait, oldest first, as long as its
     * record exists; `undefined` for an unknown job.
     */
    readonly listWaits: (
      jobIds: ReadonlyArray<JobId>,
    ) => Effect.Effect<ReadonlyArray<ReadonlyArray<WaitRun> | undefined>, StoreUnavailable>
  }
>()("@kiln/core/ports/JobDirectory") {}

import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Job, JobId, ProjectId, StoreUnavailable } from "../domain/index.ts"
import type { JobCount, JobList, JobPage } from "./JobListing.ts"

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

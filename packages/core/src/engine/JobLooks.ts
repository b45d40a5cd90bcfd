import { Context, Effect, Layer } from "effect"
import type { Job, JobId, StoreUnavailable } from "../domain/index.ts"
import { JobDirectory } from "../ports/index.ts"
import { groupCommit } from "./GroupCommit.ts"

/** Looks at jobs for those who wait for them: of a process's waiters, whoever looks at the same moment shares one question. */
export class JobLooks extends Context.Service<
  JobLooks,
  {
    /** The job, whosever it is. */
    readonly look: (jobId: JobId) => Effect.Effect<Job | undefined, StoreUnavailable>
  }
>()("@kiln/core/engine/JobLooks") {
  static readonly layer: Layer.Layer<JobLooks, never, JobDirectory> = Layer.effect(
    JobLooks,
    Effect.gen(function* () {
      const directory = yield* JobDirectory
      const read = yield* groupCommit(directory.readJobs)
      return JobLooks.of({ look: (jobId) => Effect.map(read([jobId]), ([job]) => job) })
    }),
  )
}

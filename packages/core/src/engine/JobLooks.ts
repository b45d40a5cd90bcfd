import { Context, Effect, Layer } from "effect"
import type { Job, JobId, StoreUnavailable } from "../domain/index.ts"
import { JobDirectory } from "../ports/index.ts"
import { groupCommit } from "./GroupCommit.ts"

/** Milliseconds in which the waiters of a process come together for one question: so they never ask more than fifty times a second. */
const gatherMs = 20

/** Looks at jobs, whosever they are, for those who wait for them. */
export class JobLooks extends Context.Service<
  JobLooks,
  {
    /** At once. */
    readonly look: (jobId: JobId) => Effect.Effect<Job | undefined, StoreUnavailable>
    /** Together with whoever looks at about the same time. */
    readonly lookTogether: (jobId: JobId) => Effect.Effect<Job | undefined, StoreUnavailable>
  }
>()("@kiln/core/engine/JobLooks") {
  static readonly layer: Layer.Layer<JobLooks, never, JobDirectory> = Layer.effect(
    JobLooks,
    Effect.gen(function* () {
      const directory = yield* JobDirectory
      const now = yield* groupCommit(directory.readJobs)
      const together = yield* groupCommit(directory.readJobs, Effect.sleep(gatherMs))
      return JobLooks.of({
        look: (jobId) => Effect.map(now([jobId]), ([job]) => job),
        lookTogether: (jobId) => Effect.map(together([jobId]), ([job]) => job),
      })
    }),
  )
}

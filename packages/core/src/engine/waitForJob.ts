import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { isFinished, isId, type Job, type JobId, type StoreUnavailable } from "../domain/index.ts"
import { JobNotFound, WaitTimeout } from "../domain/Errors.ts"
import { JobDirectory, type WakeUp } from "../ports/index.ts"
import { groupCommit } from "./GroupCommit.ts"
import { isEnd, type JobEvents } from "./JobEvents.ts"
import { makeJobWatch } from "./JobWatch.ts"

/**
 * Reads jobs for callers of `waitForJob`, regardless of owner. All callers of a process share one watch.
 */
export class JobReader extends Context.Service<
  JobReader,
  {
    readonly read: (jobId: JobId) => Effect.Effect<Job | undefined, StoreUnavailable>
    /** Returns the job once it is finished. It must exist. */
    readonly ended: (jobId: JobId) => Effect.Effect<Job>
  }
>()("@kiln/core/engine/JobReader") {
  static readonly layer: Layer.Layer<JobReader, never, JobDirectory | JobEvents | WakeUp> = Layer.effect(
    JobReader,
    Effect.gen(function* () {
      const directory = yield* JobDirectory
      const atOnce = yield* groupCommit(directory.readJobs)
      const watch = yield* makeJobWatch({
        keyOf: ({ jobId }: { readonly jobId: JobId }) => jobId,
        isHint: isEnd,
        read: (questions) =>
          Effect.map(directory.readJobs(questions.map(({ jobId }) => jobId)), (jobs) =>
            jobs.map((job) => (job !== undefined && isFinished(job) ? job : undefined)),
          ),
      })
      return JobReader.of({
        read: (jobId) => Effect.map(atOnce([jobId]), ([job]) => job),
        ended: (jobId) => watch.next({ jobId }),
      })
    }),
  )
}

/**
 * Returns the job once it is finished, or fails with `JobNotFound` where `mayBeSeen` says no. A worker in this process wakes it
 * at once, and so do other processes as far as the store carries hints. Otherwise the job is read with growing pauses of at most
 * 2 s, or 5 s where the store carries hints. While the store is unavailable it keeps trying. Fails with `WaitTimeout` after
 * `timeoutMs`, which is unlimited by default.
 */
export const waitForJob = (
  jobId: string,
  mayBeSeen: (job: Job) => boolean,
  timeoutMs = Infinity,
): Effect.Effect<Job, JobNotFound | WaitTimeout, JobReader> => {
  if (!isId("job", jobId)) return Effect.fail(new JobNotFound())
  const finished = watch(jobId, mayBeSeen)
  if (timeoutMs === Infinity) return finished
  return Effect.timeoutOrElse(finished, {
    duration: timeoutMs,
    orElse: () => Effect.fail(new WaitTimeout({ afterMs: timeoutMs })),
  })
}

const watch = Effect.fnUntraced(function* (jobId: JobId, mayBeSeen: (job: Job) => boolean) {
  const reader = yield* JobReader
  const mine = (job: Job | undefined): Effect.Effect<Job, JobNotFound> =>
    job !== undefined && mayBeSeen(job) ? Effect.succeed(job) : Effect.fail(new JobNotFound())
  // An outage may end before the job does.
  const first = yield* Effect.flatMap(reader.read(jobId), mine).pipe(
    Effect.catchTag("StoreUnavailable", (): Effect.Effect<undefined> => Effect.succeed(undefined)),
  )
  if (first !== undefined && isFinished(first)) return first
  return yield* Effect.flatMap(reader.ended(jobId), mine)
})

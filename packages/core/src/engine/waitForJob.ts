import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { isFinished, isId, type Job, type JobId, type StoreUnavailable } from "../domain/index.ts"
import { JobNotFound, WaitTimeout } from "../domain/Errors.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"
import { JobDirectory, JobStore, type WakeUp } from "../ports/index.ts"
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
    /** Returns true once the job is finished, or its record is gone; `undefined` if the time is over. */
    readonly ended: (jobId: JobId, timeoutMs: number) => Effect.Effect<true | undefined>
    /** The same for a listener, which is called once, later, and not after the returned function was called. */
    readonly onEnd: (
      jobId: JobId,
      timeoutMs: number,
      listener: (ended: true | undefined) => void,
      isReadNext: boolean,
    ) => () => void
  }
>()("@kiln/core/engine/JobReader") {
  static readonly layer: Layer.Layer<JobReader, never, JobDirectory | JobStore | JobEvents | WakeUp> = Layer.effect(
    JobReader,
    Effect.gen(function* () {
      const directory = yield* JobDirectory
      const atOnce = yield* groupCommit(directory.readJobs)
      const { readChunks } = yield* JobStore
      const watch = yield* makeJobWatch({
        keyOf: ({ jobId }: { readonly jobId: JobId }) => jobId,
        // The caller reads the job anyway.
        newsIn: (event) => (isEnd(event) ? true : undefined),
        // No chunks, only whether the jobs have finished: thousands are read again and again.
        read: (questions) =>
          Effect.map(readChunks(questions.map(({ jobId }) => ({ jobId, from: 0, limit: 0 }))), (pages) =>
            pages.map((page) => (page === undefined || page.isFinished ? true : undefined)),
          ),
      })
      return JobReader.of({
        read: (jobId) => Effect.map(atOnce([jobId]), ([job]) => job),
        ended: (jobId, timeoutMs) => watch.next({ jobId }, timeoutMs),
        onEnd: (jobId, timeoutMs, listener, isReadNext) => watch.onNews({ jobId }, timeoutMs, listener, isReadNext),
      })
    }),
  )
}

/**
 * Returns the job once it is finished, or fails with `JobNotFound` where `mayBeSeen` says no or its record is gone. A worker in this process wakes it
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
  return watch(jobId, mayBeSeen, timeoutMs)
}

const watch = Effect.fnUntraced(function* (jobId: JobId, mayBeSeen: (job: Job) => boolean, timeoutMs: number) {
  const reader = yield* JobReader
  const startedAt = yield* monotonicMs
  const left = Effect.map(monotonicMs, (now) => Math.max(0, timeoutMs - (now - startedAt)))
  // Made when it is needed: an error holds its stack.
  const timeout = () => Effect.fail(new WaitTimeout({ afterMs: timeoutMs }))
  const mine = (job: Job | undefined): Effect.Effect<Job, JobNotFound> =>
    job !== undefined && mayBeSeen(job) ? Effect.succeed(job) : Effect.fail(new JobNotFound())
  // An outage may end before the job does.
  const look = Effect.flatMap(reader.read(jobId), mine).pipe(
    Effect.catchTag("StoreUnavailable", (): Effect.Effect<undefined> => Effect.succeed(undefined)),
  )
  while (true) {
    const duration = yield* left
    const job = yield* timeoutMs === Infinity ? look : Effect.timeoutOrElse(look, { duration, orElse: timeout })
    if (job !== undefined && isFinished(job)) return job
    if ((yield* reader.ended(jobId, yield* left)) === undefined) return yield* timeout()
  }
})

import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { isFinished, isId, type Job, type JobId, type StoreUnavailable } from "../domain/index.ts"
import { JobNotFound, WaitTimeout } from "../domain/Errors.ts"
import { JobDirectory, WakeUp } from "../ports/index.ts"
import { groupCommit } from "./GroupCommit.ts"
import { isEnd, JobEvents } from "./JobEvents.ts"

/** Milliseconds between two reads, growing. If every process is notified of a job's end, reading is only the fallback. */
const pauses = {
  process: { first: 50, longest: 2_000 },
  installation: { first: 1_000, longest: 5_000 },
} as const

/** Milliseconds for which the callers of a process gather for one read: together they read at most fifty times a second. */
const gatherMs = 20

/** Reads jobs for callers of `waitForJob`, regardless of owner. Concurrent reads share one call of the store. */
export class JobReader extends Context.Service<
  JobReader,
  {
    readonly read: (jobId: JobId) => Effect.Effect<Job | undefined, StoreUnavailable>
    /** Waits up to 20 ms for other readers first. */
    readonly readTogether: (jobId: JobId) => Effect.Effect<Job | undefined, StoreUnavailable>
  }
>()("@kiln/core/engine/JobReader") {
  static readonly layer: Layer.Layer<JobReader, never, JobDirectory> = Layer.effect(
    JobReader,
    Effect.gen(function* () {
      const directory = yield* JobDirectory
      const atOnce = yield* groupCommit(directory.readJobs)
      const together = yield* groupCommit(directory.readJobs, { gather: () => Effect.sleep(gatherMs) })
      return JobReader.of({
        read: (jobId) => Effect.map(atOnce([jobId]), ([job]) => job),
        readTogether: (jobId) => Effect.map(together([jobId]), ([job]) => job),
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
): Effect.Effect<Job, JobNotFound | WaitTimeout, JobReader | JobEvents | WakeUp> => {
  if (!isId("job", jobId)) return Effect.fail(new JobNotFound())
  const finished = Effect.scoped(watch(jobId, mayBeSeen))
  if (timeoutMs === Infinity) return finished
  return Effect.timeoutOrElse(finished, {
    duration: timeoutMs,
    orElse: () => Effect.fail(new WaitTimeout({ afterMs: timeoutMs })),
  })
}

const watch = Effect.fnUntraced(function* (jobId: JobId, mayBeSeen: (job: Job) => boolean) {
  const reader = yield* JobReader
  const events = yield* JobEvents
  const wakeUp = yield* WakeUp
  yield* wakeUp.onFinished((jobs) => {
    if (jobs === "any" || jobs.includes(jobId)) events.emit({ type: "finished", jobId })
  })
  const seenBy = (read: JobReader["Service"]["read"]) =>
    read(jobId).pipe(
      Effect.flatMap((job) =>
        job !== undefined && mayBeSeen(job) ? Effect.succeed(job) : Effect.fail(new JobNotFound()),
      ),
      // An outage may end before the job does.
      Effect.catchTag("StoreUnavailable", (): Effect.Effect<undefined> => Effect.succeed(undefined)),
    )
  let wasTold = true
  for (let reads = 0; ; reads += 1) {
    const { first, longest } = pauses[yield* wakeUp.reach]
    const pauseMs = Math.min(longest, first * 2 ** Math.min(reads, 16))
    // Listens before it reads, so that the end of the job cannot fall in between.
    const told = Deferred.makeUnsafe<void>()
    const stopListening = events.listenTo(jobId, (event) => {
      if (isEnd(event)) Deferred.doneUnsafe(told, Effect.void)
    })
    const job = yield* Effect.ensuring(
      Effect.gen(function* () {
        const found = yield* seenBy(wasTold ? reader.read : reader.readTogether)
        if (found === undefined || !isFinished(found))
          wasTold = yield* Effect.raceFirst(
            Effect.as(Deferred.await(told), true),
            Effect.as(Effect.sleep(pauseMs), false),
          )
        return found
      }),
      Effect.sync(stopListening),
    )
    if (job !== undefined && isFinished(job)) return job
  }
})

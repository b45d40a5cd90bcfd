import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
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

/** Jobs that become due within these milliseconds are read together: a process reads at most fifty times a second. */
const gatherMs = 20
/** Maximum number of jobs in one read. */
const readSize = 100

/** A job that is waited for. */
interface Awaited {
  readonly hear: Set<(job: Job) => void>
  readonly stopListening: () => void
  reads: number
  /** Milliseconds of the clock at which the job is read again, whatever was heard. */
  dueAt: number
}

/**
 * Reads jobs for callers of `waitForJob`, regardless of owner. All callers of a process share one watch: a caller that waits costs an
 * entry in it, and one fiber reads the jobs that have ended or are due.
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
      const events = yield* JobEvents
      const wakeUp = yield* WakeUp
      const scope = yield* Effect.scope
      const context = yield* Effect.context()
      const clock = yield* Clock.Clock
      const atOnce = yield* groupCommit(directory.readJobs)
      const awaited = new Map<JobId, Awaited>()
      const told = new Set<JobId>()
      const news = Latch.makeUnsafe(false)
      let isWatching = false

      const tell = (jobId: JobId): void => {
        if (!awaited.has(jobId)) return
        told.add(jobId)
        news.openUnsafe()
      }
      const hearFinished = (jobs: ReadonlyArray<JobId> | "any"): void => {
        for (const jobId of jobs === "any" ? awaited.keys() : jobs) tell(jobId)
      }

      const look = Effect.fnUntraced(function* (jobIds: ReadonlyArray<JobId>) {
        const { first, longest } = pauses[yield* wakeUp.reach]
        // An outage may end before the jobs do.
        const jobs = yield* Effect.orElseSucceed(directory.readJobs(jobIds), () => [])
        const now = yield* Clock.currentTimeMillis
        jobIds.forEach((jobId, at) => {
          const entry = awaited.get(jobId)
          if (entry === undefined) return
          const job = jobs[at]
          if (job !== undefined && isFinished(job)) for (const hear of entry.hear) hear(job)
          entry.dueAt = now + Math.min(longest, first * 2 ** Math.min(entry.reads, 16))
          entry.reads += 1
        })
      })

      const turn = Effect.gen(function* () {
        news.closeUnsafe()
        const now = yield* Clock.currentTimeMillis
        const due = new Set(told)
        told.clear()
        let nextAt = Infinity
        for (const [jobId, { dueAt }] of awaited)
          // A clock that was set back must not put off a read.
          if (dueAt <= now + gatherMs / 2 || dueAt > now + 2 * pauses.installation.longest) due.add(jobId)
          else nextAt = Math.min(nextAt, dueAt)
        const jobIds = [...due]
        for (let at = 0; at < jobIds.length; at += readSize) yield* look(jobIds.slice(at, at + readSize))
        if (jobIds.length > 0) return yield* Effect.timeoutOption(news.await, gatherMs)
        return yield* Effect.timeoutOption(news.await, Math.min(nextAt - now, pauses.installation.longest))
      })
      const watch = Effect.gen(function* () {
        yield* wakeUp.onFinished(hearFinished)
        yield* Effect.whileLoop({ while: () => awaited.size > 0, body: () => turn, step: () => {} })
      }).pipe(Effect.scoped, Effect.ensuring(Effect.sync(() => void (isWatching = false))))

      const add = (jobId: JobId, hear: (job: Job) => void): void => {
        const known = awaited.get(jobId)
        if (known !== undefined) return void known.hear.add(hear)
        // The job may have ended since its caller read it.
        const dueAt = clock.currentTimeMillisUnsafe() + gatherMs
        const stopListening = events.listenTo(jobId, (event) => {
          if (isEnd(event)) tell(jobId)
        })
        awaited.set(jobId, { hear: new Set([hear]), stopListening, reads: 0, dueAt })
        news.openUnsafe()
        if (isWatching) return
        isWatching = true
        Fiber.runIn(Effect.runForkWith(context)(watch), scope)
      }
      const remove = (jobId: JobId, hear: (job: Job) => void): void => {
        const entry = awaited.get(jobId)
        entry?.hear.delete(hear)
        if (entry?.hear.size !== 0) return
        entry.stopListening()
        awaited.delete(jobId)
        told.delete(jobId)
        news.openUnsafe()
      }
      return JobReader.of({
        read: (jobId) => Effect.map(atOnce([jobId]), ([job]) => job),
        ended: (jobId) =>
          Effect.callback<Job>((resume) => {
            const hear = (job: Job): void => {
              remove(jobId, hear)
              resume(Effect.succeed(job))
            }
            add(jobId, hear)
            return Effect.sync(() => remove(jobId, hear))
          }),
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

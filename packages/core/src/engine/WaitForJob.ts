import { Effect, Fiber } from "effect"
import { isFinished, type Job, type StoreUnavailable } from "../domain/index.ts"
import { WakeUp } from "../ports/index.ts"
import { WaitTimedOut } from "./errors.ts"
import { JobSignals } from "./JobSignals.ts"

const firstPauseMs = 50
const longestPauseMs = 2_000

/**
 * The job once it is finished, looked for with `look`. Woken at once by a worker in this process, and by those of others as
 * far as the store tells of them; otherwise it is looked at with growing pauses, at most every 2 s. Without `timeoutMs` it
 * waits for as long as it takes.
 */
export const waitForJob = <E, R>(
  jobId: string,
  look: Effect.Effect<Job, E | StoreUnavailable, R>,
  timeoutMs = Infinity,
): Effect.Effect<Job, E | StoreUnavailable | WaitTimedOut, R | JobSignals | WakeUp> =>
  Effect.gen(function* () {
    const seen = yield* look
    if (isFinished(seen)) return seen
    return yield* Effect.scoped(watching(jobId as Job["id"], look))
  }).pipe(
    timeoutMs === Infinity
      ? (finished) => finished
      : Effect.timeoutOrElse({
          duration: timeoutMs,
          orElse: () => Effect.fail(new WaitTimedOut({ afterMs: timeoutMs })),
        }),
  )

const watching = Effect.fnUntraced(function* <E, R>(
  jobId: Job["id"],
  look: Effect.Effect<Job, E | StoreUnavailable, R>,
) {
  const signals = yield* JobSignals
  const wakeUp = yield* WakeUp
  // What other processes say goes where this one's own word goes.
  yield* wakeUp.onFinished((jobs) => {
    if (jobs === "any" || jobs.includes(jobId)) signals.finishedUnsafe(jobId)
  })
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    // Listening begins before reading, so that a job that finishes in between is not slept through.
    const job = yield* Effect.scoped(
      Effect.gen(function* () {
        const signal = yield* Effect.forkScoped(signals.wait(jobId), { startImmediately: true })
        const seen = yield* look
        if (!isFinished(seen)) yield* Effect.raceFirst(Fiber.await(signal), Effect.sleep(pauseMs))
        return seen
      }),
    )
    if (isFinished(job)) return job
  }
})

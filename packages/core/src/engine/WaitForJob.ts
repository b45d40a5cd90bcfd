import { Effect, Fiber } from "effect"
import { isFinished, type Job, type Principal } from "../domain/index.ts"
import { getJob } from "./GetJob.ts"
import { JobSignals } from "./JobSignals.ts"

const firstPauseMs = 50
const longestPauseMs = 2_000

/**
 * The job once it is finished. Woken at once by a worker in this process; a job that another
 * process runs is looked at with growing pauses, at most every 2 s.
 */
export const waitForJob = Effect.fnUntraced(function* (principal: Principal, jobId: string) {
  const signals = yield* JobSignals
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    // Listening begins before reading, so that a job that finishes in between is not slept through.
    const job = yield* Effect.scoped(
      Effect.gen(function* () {
        const signal = yield* Effect.forkScoped(signals.wait(jobId as Job["id"]), { startImmediately: true })
        const seen = yield* getJob(principal, jobId)
        if (!isFinished(seen)) yield* Effect.raceFirst(Fiber.await(signal), Effect.sleep(pauseMs))
        return seen
      }),
    )
    if (isFinished(job)) return job
  }
})

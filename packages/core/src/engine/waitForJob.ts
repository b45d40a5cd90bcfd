import { Effect, Fiber } from "effect"
import { isFinished, isId, type Job, JobNotFound, WaitTimeout } from "../domain/index.ts"
import { WakeUp } from "../ports/index.ts"
import { JobLooks } from "./JobLooks.ts"
import { JobSignals } from "./JobSignals.ts"

/** Milliseconds between two looks, growing: where the end of a job is told to every process, looking is only the backstop. */
const pauses = {
  process: { first: 50, longest: 2_000 },
  installation: { first: 1_000, longest: 5_000 },
} as const

/**
 * The job once it is finished, if `mayBeSeen` says so. Woken at once by a worker in this process, and by those of others as far
 * as the store tells of them; otherwise it is looked at with growing pauses, at most every 2 s, or every 5 s where the
 * store tells everybody. A store that is out of reach meanwhile is waited for as well. Without `timeoutMs` it waits for as
 * long as it takes.
 */
export const waitForJob = (
  jobId: string,
  mayBeSeen: (job: Job) => boolean,
  timeoutMs = Infinity,
): Effect.Effect<Job, JobNotFound | WaitTimeout, JobLooks | JobSignals | WakeUp> => {
  if (!isId("job", jobId)) return Effect.fail(new JobNotFound())
  const finished = Effect.scoped(watching(jobId, mayBeSeen))
  if (timeoutMs === Infinity) return finished
  return Effect.timeoutOrElse(finished, {
    duration: timeoutMs,
    orElse: () => Effect.fail(new WaitTimeout({ afterMs: timeoutMs })),
  })
}

const watching = Effect.fnUntraced(function* (jobId: Job["id"], mayBeSeen: (job: Job) => boolean) {
  const looks = yield* JobLooks
  const signals = yield* JobSignals
  const wakeUp = yield* WakeUp
  // What other processes say goes where this one's own word goes.
  yield* wakeUp.onFinished((jobs) => {
    if (jobs === "any" || jobs.includes(jobId)) signals.finishedUnsafe(jobId)
  })
  const seenBy = (look: JobLooks["Service"]["look"]) =>
    look(jobId).pipe(
      Effect.flatMap((job) =>
        job !== undefined && mayBeSeen(job) ? Effect.succeed(job) : Effect.fail(new JobNotFound()),
      ),
      // It may be back before the job is done, and says nothing about it until then.
      Effect.catchTag("StoreUnavailable", (): Effect.Effect<undefined> => Effect.succeed(undefined)),
    )
  let told = true
  for (let looked = 0; ; looked += 1) {
    const { first, longest } = pauses[yield* wakeUp.reach]
    const pauseMs = Math.min(longest, first * 2 ** Math.min(looked, 16))
    // Listening begins before reading, so that a job that finishes in between is not slept through.
    const job = yield* Effect.scoped(
      Effect.gen(function* () {
        const signal = yield* Effect.forkScoped(signals.wait(jobId), { startImmediately: true })
        // Who was told that it is finished does not wait for others to ask.
        const found = yield* seenBy(told ? looks.look : looks.lookTogether)
        if (found === undefined || !isFinished(found))
          told = yield* Effect.raceFirst(Effect.as(Fiber.await(signal), true), Effect.as(Effect.sleep(pauseMs), false))
        return found
      }),
    )
    if (job !== undefined && isFinished(job)) return job
  }
})

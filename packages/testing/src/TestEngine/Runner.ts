import { isFinished, type JobId, type JobStatus } from "@kiln/core/domain"
import { type EmbeddedServices, EngineConfig } from "@kiln/core/effect"
import { JobKinds } from "@kiln/core/kinds"
import { JobDirectory } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { FakeProviders } from "../fakes/FakeProviders.ts"
import { makeAttempts } from "./Attempts.ts"
import type { RunInEngine } from "./EngineAccess.ts"
import type { TimeTravel } from "./TimeTravel.ts"
import { makeRetryWait } from "./RetryWait.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** Maximum number of attempts of one `drain`. More means that jobs create jobs endlessly. */
const maxAttempts = 1_000
const pageSize = 500

/** Runs jobs on demand. */
export interface Runner {
  /** Runs one attempt and returns the id of its job. */
  readonly runNext: () => Promise<JobId | undefined>
  readonly drain: (throughRetries: boolean) => Promise<number>
  /** Runs jobs until this one is finished, or until this engine cannot continue it. Time advances automatically. */
  readonly finish: (jobId: JobId) => Promise<void>
}

export const makeRunner = (
  context: Context.Context<EmbeddedServices>,
  inside: RunInEngine,
  time: VirtualTime,
  timeTravel: TimeTravel,
  fakes: Pick<FakeProviders, "untilWaiting">,
  mode: "inline" | "manual",
): Runner => {
  const directory = Context.get(context, JobDirectory)
  const { runningAttempts, make } = makeAttempts(context, inside)
  const limited = hasLimits(context)
  // A fake that hangs or is late waits for time to advance, and so does a job that waits for a rate. Anything else an attempt waits
  // for is real, so time must not run ahead of it.
  const untilWaiting = Effect.raceFirst(fakes.untilWaiting, Context.get(context, Worker).untilWaitsForRate)
  const attemptInTime = () => make(Effect.forever(Effect.andThen(untilWaiting, timeTravel.advanceToNextWake)))
  const attemptOnce = mode === "inline" ? attemptInTime : () => make(Effect.never)
  const newRetryWait = () => makeRetryWait(context, inside, time, timeTravel)

  const claimableAt = Effect.fnUntraced(function* (status: JobStatus) {
    const found: Array<number> = []
    let after: string | undefined
    do {
      const page = yield* directory.listJobs({ status, limit: pageSize, after })
      for (const job of page.jobs)
        if (job.claimableAt !== null && !runningAttempts.has(job.id)) found.push(job.claimableAt)
      after = page.next
    } while (after !== undefined)
    return found
  })
  const waiting = Effect.map(Effect.all([claimableAt("queued"), claimableAt("processing")]), (found) => found.flat())

  return {
    runNext: attemptOnce,
    drain: async (throughRetries) => {
      const attempt = throughRetries ? attemptInTime : attemptOnce
      const retryWait = newRetryWait()
      for (let made = 0; made < maxAttempts;) {
        if ((await attempt()) !== undefined) {
          made++
          retryWait.reset()
        } else if (!throughRetries || !(await retryWait.waitForNext(await inside(waiting)))) return made
      }
      throw new Error(
        `drain() stopped after ${maxAttempts} attempts, and there are still runnable jobs; check for jobs that create jobs endlessly`,
      )
    },
    finish: async (jobId) => {
      const retryWait = newRetryWait()
      for (;;) {
        const [job] = await inside(directory.readJobs([jobId]))
        if (job === undefined || job.claimableAt === null || isFinished(job)) return
        const here = runningAttempts.get(jobId)
        if (here !== undefined) await here
        else if ((await attemptInTime()) !== undefined) retryWait.reset()
        // Other jobs have its slot, which will be free in a moment.
        else if (limited && runningAttempts.size > 0 && job.claimableAt <= time.now())
          await Promise.race(runningAttempts.values())
        // A parent is claimable long after the children that it waits for.
        else if (!(await retryWait.waitForNext(await inside(waiting)))) return
      }
    },
  }
}

/** Returns whether a job may have to wait for others to end. */
const hasLimits = (context: Context.Context<EmbeddedServices>): boolean => {
  const { limits } = Context.get(context, EngineConfig)
  return (
    // A share limits a worker with several slots; this one runs single attempts.
    (limits.perProject !== "share" && limits.perProject > 0) ||
    Object.keys(limits.perKind).length > 0 ||
    Context.get(context, JobKinds).some((kind) => kind.limits.concurrency !== undefined)
  )
}

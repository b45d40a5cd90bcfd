import { isFinished, type JobId, type JobStatus } from "@kiln/core/domain"
import { type EmbeddedServices, EngineConfig } from "@kiln/core/effect"
import { JobKinds } from "@kiln/core/kinds"
import { JobDirectory } from "@kiln/core/ports"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { FakeProviders } from "../fakes/FakeProviders.ts"
import { makeAttempts } from "./Attempts.ts"
import type { RunInEngine } from "./EngineAccess.ts"
import type { TimeTravel } from "./TimeTravel.ts"
import { makeRetryWait } from "./RetryWait.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** Attempts one `drain` makes at most: more are jobs that make jobs without end. */
const maxAttempts = 1_000
const pageSize = 500

/** Runs jobs when it is told to. */
export interface Runner {
  /** Makes one attempt, and says of which job. */
  readonly runNext: () => Promise<JobId | undefined>
  readonly drain: (throughRetries: boolean) => Promise<number>
  /** Runs jobs until this one is finished, or until nobody here can go on with it. Time passes by itself. */
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
  const { inHand, make } = makeAttempts(context, inside)
  const limited = hasLimits(context)
  // A fake that hangs or is late waits for time; whatever else an attempt waits for is real, and must not be overtaken.
  const attemptInTime = () => make(Effect.forever(Effect.andThen(fakes.untilWaiting, timeTravel.advanceToNextWake)))
  const attemptOnce = mode === "inline" ? attemptInTime : () => make(Effect.never)
  const newRetryWait = () => makeRetryWait(context, inside, time, timeTravel)

  const claimableAt = Effect.fnUntraced(function* (status: JobStatus) {
    const found: Array<number> = []
    let after: string | undefined
    do {
      const page = yield* directory.listJobs({ status, limit: pageSize, after })
      for (const job of page.jobs) if (job.claimableAt !== null && !inHand.has(job.id)) found.push(job.claimableAt)
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
      throw new Error(`there is no end to it: ${maxAttempts} attempts, and still jobs that may run`)
    },
    finish: async (jobId) => {
      const retryWait = newRetryWait()
      for (;;) {
        const [job] = await inside(directory.readJobs([jobId]))
        if (job === undefined || job.claimableAt === null || isFinished(job)) return
        const here = inHand.get(jobId)
        if (here !== undefined) await here
        else if ((await attemptInTime()) !== undefined) retryWait.reset()
        // Others have its place: in a moment it is free.
        else if (limited && inHand.size > 0 && job.claimableAt <= time.now()) await Promise.race(inHand.values())
        else if (!(await retryWait.waitForNext([job.claimableAt]))) return
      }
    },
  }
}

/** Whether a job may have to wait for others to end. */
const hasLimits = (context: Context.Context<EmbeddedServices>): boolean => {
  const { limits } = Context.get(context, EngineConfig)
  return (
    // A share bounds a running worker, and this one makes single attempts.
    (limits.perProject !== "share" && limits.perProject > 0) ||
    Object.keys(limits.perKind).length > 0 ||
    Context.get(context, JobKinds).some((kind) => kind.limits.concurrency !== undefined)
  )
}

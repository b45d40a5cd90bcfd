import {
  type EmbeddedServices,
  EngineConfig,
  isFinished,
  JobDirectory,
  type JobId,
  JobKinds,
  type JobStatus,
} from "@kiln/core/effect"
import { Worker } from "@kiln/core/worker"
import { Context, Effect } from "effect"
import type { FakeProviders } from "../fakes/FakeProviders.ts"
import { makeAttempts } from "./Attempts.ts"
import type { Inside } from "./Inside.ts"
import type { Passing } from "./Passing.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** Attempts one `drain` makes at most: more are jobs that make jobs without end. */
const maxAttempts = 10_000
/** How long is waited at once for a provider that is paused. */
const pauseStepMs = 5_000
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
  inside: Inside,
  time: VirtualTime,
  { passNext, passTo }: Passing,
  fakes: FakeProviders,
  mode: "inline" | "manual",
): Runner => {
  const worker = Context.get(context, Worker)
  const directory = Context.get(context, JobDirectory)
  const { circuit, limits } = Context.get(context, EngineConfig)
  const { inHand, make } = makeAttempts(context, inside)
  const limited =
    limits.perProject > 0 ||
    Object.keys(limits.perKind).length > 0 ||
    Context.get(context, JobKinds).some((kind) => kind.limits.concurrency !== undefined)
  // A fake that hangs or is late waits for time; whatever else an attempt waits for is real, and must not be overtaken.
  const passing = make.bind(undefined, Effect.forever(Effect.andThen(fakes.untilWaiting, passNext)))
  const byHand = mode === "inline" ? passing : make.bind(undefined, Effect.never)

  /** Lets time pass until something may run again. `false` where waiting helps nothing. */
  const makePatience = () => {
    let pausedMs = 0
    return {
      reset: () => {
        pausedMs = 0
      },
      passOn: async (claimableAt: ReadonlyArray<number>): Promise<boolean> => {
        const later = claimableAt.filter((at) => at > time.now())
        const next = later.reduce((a, b) => Math.min(a, b), Infinity)
        const mayBePaused = later.length < claimableAt.length && pausedMs <= circuit.brokenPauseMaxMs
        if (mayBePaused && (await inside(worker.providers)).some(({ status }) => status === "paused")) {
          pausedMs += pauseStepMs
          await passTo(Math.min(next, time.now() + pauseStepMs))
          return true
        }
        if (later.length > 0) await passTo(next)
        return later.length > 0
      },
    }
  }

  const unfinished = Effect.fnUntraced(function* (status: JobStatus) {
    const found: Array<number> = []
    let after: string | undefined
    do {
      const page = yield* directory.listJobs({ status, limit: pageSize, after })
      for (const { claimableAt, id } of page.jobs) if (claimableAt !== null && !inHand.has(id)) found.push(claimableAt)
      after = page.next
    } while (after !== undefined)
    return found
  })
  const allUnfinished = Effect.map(Effect.all([unfinished("queued"), unfinished("processing")]), (found) =>
    found.flat(),
  )

  return {
    runNext: byHand,
    drain: async (throughRetries) => {
      const attempt = throughRetries ? passing : byHand
      const patience = makePatience()
      for (let made = 0; made < maxAttempts;) {
        if ((await attempt()) !== undefined) {
          made++
          patience.reset()
        } else if (!throughRetries || !(await patience.passOn(await inside(allUnfinished)))) return made
      }
      throw new Error(`there is no end to it: ${maxAttempts} attempts, and still jobs that may run`)
    },
    finish: async (jobId) => {
      const patience = makePatience()
      for (;;) {
        const [job] = await inside(directory.readJobs([jobId]))
        if (job === undefined || job.claimableAt === null || isFinished(job)) return
        const here = inHand.get(jobId)
        if (here !== undefined) await here
        else if ((await passing()) !== undefined) patience.reset()
        // Others have its place: in a moment it is free.
        else if (limited && inHand.size > 0 && job.claimableAt <= time.now()) await Promise.race(inHand.values())
        else if (!(await patience.passOn([job.claimableAt]))) return
      }
    },
  }
}

import {
  type EmbeddedServices,
  EngineConfig,
  JobDirectory,
  JobEvents,
  type Job,
  type JobId,
  JobKinds,
  isFinished,
} from "@kiln/core/effect"
import { collectOrphans, expireOverdue, pruneOnce, Worker } from "@kiln/core/worker"
import { Context, Effect } from "effect"
import type { FakeProviders } from "../fakes/FakeProviders.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** Attempts one `drain` makes at most: more are jobs that make jobs without end. */
const maxAttempts = 10_000
/** However much time is to pass, it is swept so often on the way. */
const sweepsOnTheWay = 60
const shortestStrideMs = 1_000
/** How long it is waited at once for a provider that is paused. */
const pauseStepMs = 5_000
const pageSize = 500

/** Runs jobs, and lets time pass, when it is told to. */
export interface Runner {
  readonly advance: (ms: number) => Promise<void>
  /** Makes one attempt. With `passes`, time passes while a fake hangs or is late. */
  readonly runNext: (passes: boolean) => Promise<JobId | undefined>
  readonly drain: (throughRetries: boolean) => Promise<number>
  /** Runs jobs until this one is finished, or cannot be run by anybody here. */
  readonly finish: (jobId: JobId) => Promise<void>
}

/** Runs an effect inside the engine. */
export type Inside = <A, E>(effect: Effect.Effect<A, E, EmbeddedServices>) => Promise<A>

export const makeRunner = (
  context: Context.Context<EmbeddedServices>,
  inside: Inside,
  time: VirtualTime,
  fakes: FakeProviders,
): Runner => {
  const worker = Context.get(context, Worker)
  const directory = Context.get(context, JobDirectory)
  const { circuit } = Context.get(context, EngineConfig)
  const kinds = Context.get(context, JobKinds)
  /** What runs here now, each with the end of its attempt. */
  const inHand = new Map<JobId, Promise<unknown>>()
  let claiming: Promise<unknown> = Promise.resolve()

  const passTo = async (unixMs: number) => {
    await time.moveTo(unixMs)
    await inside(sweep)
  }
  const advance = async (ms: number) => {
    const target = time.now() + ms
    const strideMs = Math.max(shortestStrideMs, Math.ceil(ms / sweepsOnTheWay))
    do await passTo(Math.min(target, time.now() + strideMs))
    while (time.now() < target)
  }
  const tick = Effect.raceFirst(
    worker.tick,
    passWhile(fakes.untilWaiting, Effect.suspend(() => passNext(time, passTo))),
  )

  const attempt = async (passes: boolean): Promise<JobId | undefined> => {
    // Whose attempt an event speaks of is known because claims are made one after the other.
    const turn = claiming
    const started = Promise.withResolvers<JobId>()
    await turn
    const deaf = Context.get(context, JobEvents).listen((event) => {
      if (event.type === "started") started.resolve(event.jobId)
    })
    const ended = inside(passes ? tick : worker.tick)
    const began = Promise.race([started.promise, ended.then(() => undefined, () => undefined)]).then((jobId) => {
      deaf()
      if (jobId !== undefined) inHand.set(jobId, ended)
      return jobId
    })
    claiming = began
    const jobId = await began
    await ended.finally(() => jobId !== undefined && inHand.delete(jobId))
    return jobId
  }
  return { advance, runNext: attempt, ...makeDriver() }
}

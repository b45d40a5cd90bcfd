import type { JobId } from "@kiln/core/domain"
import { type EmbeddedServices, JobEvents } from "@kiln/core/effect"
import { deliverFinished, Worker } from "@kiln/core/worker"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { RunInEngine } from "./EngineAccess.ts"

export interface Attempts {
  /** Running attempts, each with a signal of its end. */
  readonly runningAttempts: ReadonlyMap<JobId, Promise<unknown>>
  /** Runs one attempt of the next runnable job and returns its id; `meanwhile` runs concurrently. */
  readonly make: (meanwhile: Effect.Effect<never>) => Promise<JobId | undefined>
}

export const makeAttempts = (context: Context.Context<EmbeddedServices>, inside: RunInEngine): Attempts => {
  const worker = Context.get(context, Worker)
  const events = Context.get(context, JobEvents)
  const runningAttempts = new Map<JobId, Promise<unknown>>()
  let claiming: Promise<unknown> = Promise.resolve()

  const begin = async (meanwhile: Effect.Effect<never>) => {
    const started = Promise.withResolvers<JobId>()
    const deafen = events.listen((event) => {
      if (event.type === "active") started.resolve(event.jobId)
    })
    const ended = inside(Effect.raceFirst(worker.tick, meanwhile))
    const nothing = ended.then(
      () => undefined,
      () => undefined,
    )
    const jobId = await Promise.race([started.promise, nothing])
    deafen()
    if (jobId !== undefined) {
      runningAttempts.set(jobId, ended)
      void nothing.then(() => runningAttempts.delete(jobId))
    }
    return { ended, jobId }
  }
  return {
    runningAttempts,
    make: (meanwhile) => {
      // Claims are serialized, so that each event can be assigned to its attempt.
      const begun = claiming.then(() => begin(meanwhile))
      claiming = begun.catch(() => undefined)
      return begun.then(({ ended, jobId }) => ended.then(() => inside(deliverFinished)).then(() => jobId))
    },
  }
}

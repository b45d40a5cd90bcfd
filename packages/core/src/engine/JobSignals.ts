import { Context, Deferred, Effect, Layer } from "effect"
import type { JobId } from "../domain/index.ts"

/** Tells waiters in this process that a job finished in this process. A hint: whoever waits reads the store as well. */
export class JobSignals extends Context.Service<
  JobSignals,
  {
    readonly finished: (jobId: JobId) => Effect.Effect<void>
    /** Completes when the job is next said to be finished. */
    readonly wait: (jobId: JobId) => Effect.Effect<void>
  }
>()("@kiln/core/engine/JobSignals") {
  static readonly layer = Layer.sync(JobSignals, () => {
    const waiting = new Map<JobId, Set<Deferred.Deferred<void>>>()
    return JobSignals.of({
      finished: (jobId) =>
        Effect.sync(() => {
          for (const deferred of waiting.get(jobId) ?? []) Deferred.doneUnsafe(deferred, Effect.void)
          waiting.delete(jobId)
        }),
      wait: (jobId) =>
        Effect.suspend(() => {
          const deferred = Deferred.makeUnsafe<void>()
          const others = waiting.get(jobId) ?? new Set()
          waiting.set(jobId, others.add(deferred))
          return Effect.ensuring(
            Deferred.await(deferred),
            Effect.sync(() => {
              others.delete(deferred)
              if (others.size === 0 && waiting.get(jobId) === others) waiting.delete(jobId)
            }),
          )
        }),
    })
  })
}

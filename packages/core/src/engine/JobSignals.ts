import { Context, Deferred, Effect, Layer } from "effect"
import type { JobId } from "../domain/index.ts"

/**
 * Tells waiters in this process that a job finished, and workers in this process that theirs was canceled. Hints: whoever
 * waits reads the store as well, and so does whoever works.
 */
export class JobSignals extends Context.Service<
  JobSignals,
  {
    readonly finished: (jobId: JobId) => Effect.Effect<void>
    readonly finishedUnsafe: (jobId: JobId) => void
    /** Completes when the job is next said to be finished. */
    readonly wait: (jobId: JobId) => Effect.Effect<void>
    /** Says that whoever works on the job here does so for nothing. */
    readonly canceled: (jobId: JobId) => Effect.Effect<void>
    /** Says that the operator changed something here: what this process knows of the board is old. */
    readonly boardChanged: Effect.Effect<void>
    /** How often that was said. */
    readonly boardChanges: () => number
    /** Says who works on the job here; the result takes it back. One at a time: a claim that is lost is followed by another. */
    readonly holding: (jobId: JobId, lose: () => void) => () => void
  }
>()("@kiln/core/engine/JobSignals") {
  static readonly layer = Layer.sync(JobSignals, () => {
    const waiting = new Map<JobId, Set<Deferred.Deferred<void>>>()
    const holders = new Map<JobId, () => void>()
    const finishedUnsafe = (jobId: JobId) => {
      for (const deferred of waiting.get(jobId) ?? []) Deferred.doneUnsafe(deferred, Effect.void)
      waiting.delete(jobId)
    }
    let boardChanges = 0
    return JobSignals.of({
      boardChanged: Effect.sync(() => void (boardChanges += 1)),
      boardChanges: () => boardChanges,
      finished: (jobId) => Effect.sync(() => finishedUnsafe(jobId)),
      finishedUnsafe,
      canceled: (jobId) => Effect.sync(() => holders.get(jobId)?.()),
      holding: (jobId, lose) => {
        holders.set(jobId, lose)
        return () => {
          if (holders.get(jobId) === lose) holders.delete(jobId)
        }
      },
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

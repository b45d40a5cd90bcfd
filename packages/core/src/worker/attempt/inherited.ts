import * as Effect from "effect/Effect"
import { type Job, type JobId, type Json, type Signal, submittedOf } from "../../domain/index.ts"
import { retriedBy } from "../../engine/index.ts"
import type { AttemptError } from "../../kinds/AttemptContext.ts"
import type { JobDirectory, JobStore } from "../../ports/index.ts"
import { retrying } from "../repeating.ts"

/** What the jobs that a job retries had finished. */
export interface Inherited {
  /** Values by name, also the engine's own. */
  readonly steps: ReadonlyMap<string, Json>
  readonly signals: ReadonlyArray<Signal>
}

/** The maximum number of retries of retries that are followed. */
export const longestChain = 100

/** Returns the job that this one continues; `undefined` for a job that is no retry, or one from the start. */
export const continued = (job: Job): JobId | undefined =>
  submittedOf(job).fromStart === true ? undefined : retriedBy(job.idempotencyKey)

/** Returns whether a job continues another one. */
export const inherits = (job: Job): boolean => continued(job) !== undefined

/** Reads what the jobs that a job retries had finished. Of several values of a name, the one of the latest retry counts. */
export const readInherited = Effect.fnUntraced(function* (
  { directory, store }: { readonly directory: JobDirectory["Service"]; readonly store: JobStore["Service"] },
  job: Job,
): Effect.fn.Return<Inherited, AttemptError> {
  const steps = new Map<string, Json>()
  const signals: Array<Signal> = []
  let id = continued(job)
  for (let n = 0; n < longestChain && id !== undefined; n++) {
    const [earlier]: ReadonlyArray<Job | undefined> = yield* Effect.retry(directory.readJobs([id]), retrying)
    if (earlier === undefined) break
    for (const [name, value] of Object.entries(earlier.checkpoints)) if (!steps.has(name)) steps.set(name, value)
    signals.push(...(yield* Effect.retry(store.listSignals(id), retrying)))
    id = continued(earlier)
  }
  return { steps, signals }
})

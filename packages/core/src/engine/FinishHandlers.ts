import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { isDelivered } from "../domain/Delivery.ts"
import { JobNotDelivered } from "../domain/Errors.ts"
import { isFinished, type Job } from "../domain/index.ts"
import { DeliveryStore } from "../ports/index.ts"
import { readJob } from "./readJob.ts"

/** Called with each finished job of a kind. The attempt is 1-based. A rejection is retried. */
export type FinishHandler = (job: Job, attempt: number, signal: AbortSignal) => Promise<unknown>

/** The handlers of finished jobs by kind. Jobs of other kinds get no delivery. Empty by default. */
export const FinishHandlers = Context.Reference<ReadonlyMap<string, FinishHandler>>(
  "@kiln/core/engine/FinishHandlers",
  {
    defaultValue: () => new Map(),
  },
)

/**
 * Lets `onFinished` be called again for a finished job: after it was confirmed, after it was given up, or instead of a long pause. Returns
 * false if it is being called, or will be within a minute anyway.
 */
export const redeliverJob = Effect.fnUntraced(function* (jobId: string) {
  const job = yield* readJob(jobId)
  if (!isFinished(job)) return yield* Effect.fail(new JobNotDelivered({ reason: "unfinished" }))
  if (!isDelivered(job.metadata)) return yield* Effect.fail(new JobNotDelivered({ reason: "no_handler" }))
  const [outcome] = yield* (yield* DeliveryStore).redeliver([{ jobId: job.id, kind: job.kind }])
  return outcome === "Redelivered"
})

import * as Effect from "effect/Effect"
import { isId, readPriority } from "../domain/index.ts"
import type { PriorityName } from "../domain/Priority.ts"
import { JobFinished, JobNotFound, JobNotWaiting } from "../domain/Errors.ts"
import { JobStore, WakeUp } from "../ports/index.ts"
import { maxDelayMs } from "./prepareJob.ts"

/** Another start or another priority of a waiting job. */
export interface NewPlace {
  /** Milliseconds from now, at most 366 days. Without it, the time stays. */
  readonly delayMs?: number | undefined
  /** Without it, the priority stays. */
  readonly priority?: PriorityName | number | undefined
}

/**
 * Changes when a waiting job may be claimed, by the store's clock, or its priority. Returns whether that changed anything. Workers look
 * at once: for the job, or for when to look again. Throws `TypeError` for a delay out of range and an unknown priority.
 */
export const rescheduleJob = Effect.fnUntraced(function* (jobId: string, { delayMs, priority }: NewPlace) {
  if (delayMs !== undefined && !(delayMs >= 0 && delayMs <= maxDelayMs))
    throw new TypeError(`delayMs must be from 0 to ${maxDelayMs}`)
  const change = {
    ...(delayMs !== undefined && { delayMs: Math.ceil(delayMs) }),
    ...(priority !== undefined && { priority: readPriority(priority) }),
  }
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const [outcome] = yield* (yield* JobStore).rescheduleJobs([{ jobId, ...change }])
  switch (outcome) {
    case "Rescheduled":
      yield* (yield* WakeUp).notify
      return true
    case "Ready":
    case "Unchanged":
      return false
    case "Started":
    case "Held":
      return yield* Effect.fail(new JobNotWaiting({ reason: "running" }))
    case "Parked":
      return yield* Effect.fail(new JobNotWaiting({ reason: "parked" }))
    case "AlreadyFinished":
      return yield* Effect.fail(new JobFinished())
    default:
      return yield* Effect.fail(new JobNotFound())
  }
})

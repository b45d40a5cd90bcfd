import * as Effect from "effect/Effect"
import { isId } from "../domain/index.ts"
import { JobFinished, JobNotFound, JobNotWaiting } from "../domain/Errors.ts"
import { JobStore, WakeUp } from "../ports/index.ts"

/**
 * Changes when a waiting job may be claimed: `delayMs` from now, by the store's clock. Returns whether that changed anything. Workers look
 * at once: for the job, or for when to look again.
 */
export const rescheduleJob = Effect.fnUntraced(function* (jobId: string, delayMs: number) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const [outcome] = yield* (yield* JobStore).rescheduleJobs([{ jobId, delayMs: Math.ceil(delayMs) }])
  switch (outcome) {
    case "Rescheduled":
      yield* (yield* WakeUp).notify
      return true
    case "Ready":
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

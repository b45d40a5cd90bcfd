import * as Effect from "effect/Effect"
import { isId } from "../domain/index.ts"
import { JobFinished, JobNotFound } from "../domain/Errors.ts"
import { JobStore } from "../ports/index.ts"
import { emitFailed, JobEvents } from "./JobEvents.ts"

/** Fails an unfinished job, claimed or not. An attempt in this process is interrupted at once. */
export const cancelJob = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const store = yield* JobStore
  const [outcome] = yield* store.cancelJobs([jobId])
  switch (outcome) {
    case "Canceled": {
      const events = yield* JobEvents
      events.emit({ type: "canceled", jobId })
      return yield* emitFailed([jobId])
    }
    case "AlreadyFinished":
      return yield* Effect.fail(new JobFinished())
    default:
      return yield* Effect.fail(new JobNotFound())
  }
})

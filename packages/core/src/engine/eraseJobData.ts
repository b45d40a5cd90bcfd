import * as Effect from "effect/Effect"
import { isId, type Principal } from "../domain/index.ts"
import { JobNotFound, JobProcessing } from "../domain/Errors.ts"
import { JobStore } from "../ports/index.ts"
import { JobEvents } from "./JobEvents.ts"
import { purgeBlobs } from "./purgeBlobs.ts"

/**
 * Deletes what a finished job retains. Unreachable when the store has committed, then the bytes
 * go. If the blob store fails (`BlobUnavailable`) the deletion stands, and a sweep finishes it.
 */
export const eraseJobData = Effect.fnUntraced(function* (principal: Principal, jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const store = yield* JobStore
  const [outcome] = yield* store.eraseJobs([{ jobId, principal }])
  switch (outcome?._tag) {
    case "Erased":
      ;(yield* JobEvents).emit({ type: "erased", jobId })
      return yield* purgeBlobs(outcome.purges)
    case "AlreadyErased":
      return yield* purgeBlobs(outcome.purges)
    case "Unfinished":
      return yield* Effect.fail(new JobProcessing())
    default:
      return yield* Effect.fail(new JobNotFound())
  }
})

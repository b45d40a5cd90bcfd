import * as Effect from "effect/Effect"
import { isId, type Principal } from "../domain/index.ts"
import { JobNotFound, JobProcessing } from "../domain/Errors.ts"
import { JobStore } from "../ports/index.ts"
import { JobEvents } from "./JobEvents.ts"
import { purgeBlobs } from "./blobs.ts"

/**
 * Deletes the retained data of a finished job. The store's commit makes it unreachable, and then the bytes are removed. If the
 * blob store fails (`BlobUnavailable`), the deletion is still in effect, and a sweep removes the bytes.
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

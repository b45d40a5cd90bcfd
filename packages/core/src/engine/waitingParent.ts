import * as Effect from "effect/Effect"
import { childIndex, type ParentStep } from "../domain/Child.ts"
import { isFinished, type Job, type StoreUnavailable, submittedOf } from "../domain/index.ts"
import { JobDirectory, JobStore } from "../ports/index.ts"
import { retryKey } from "./latestRetry.ts"

/** Maximum number of retries of retries that are followed. */
const longestChain = 100

/**
 * Returns the step that still waits for the result of a failed child: that of its parent, or of the parent's retry. The retry of the child
 * belongs to it. `undefined` if the parent has finished, or the job is no child.
 */
export const waitingParent = Effect.fnUntraced(function* (
  failed: Job,
): Effect.fn.Return<ParentStep | undefined, StoreUnavailable, JobStore | JobDirectory> {
  const { parent } = submittedOf(failed)
  if (parent === undefined) return undefined
  const store = yield* JobStore
  let [job] = yield* (yield* JobDirectory).readJobs([parent.jobId])
  for (let n = 0; n < longestChain && job !== undefined; n++) {
    if (!isFinished(job)) return { jobId: job.id, step: parent.step, index: childIndex(parent, failed.idempotencyKey) }
    job = yield* store.findByIdempotencyKey(job.keyId, retryKey(job.id))
    // It has children of its own for each request.
    if (job !== undefined && submittedOf(job).fromStart === true) return undefined
  }
  return undefined
})

import * as Effect from "effect/Effect"
import { childIndex, type ParentStep } from "../domain/Child.ts"
import { isFinished, isId, type Job, type JobId, type StoreUnavailable, submittedOf } from "../domain/index.ts"
import { JobDirectory, JobStore } from "../ports/index.ts"

/** The idempotency key of a job's retry. It contains a space, which no key of a caller does. */
export const retryKey = (jobId: JobId): string => `retry ${jobId}`

/** Returns the job that the job with this idempotency key retries; `undefined` if it is no retry. */
export const retriedBy = (idempotencyKey: string): JobId | undefined => {
  const id = idempotencyKey.startsWith("retry ") ? idempotencyKey.slice("retry ".length) : ""
  return isId("job", id) ? id : undefined
}

/** Maximum number of retries of retries that are followed. */
export const maxRetries = 100

/**
 * Returns the newest retry of a failed job: its retry, or the retry of that one, and so on. `undefined` if it was not retried or did not
 * fail. Retries belong to the key of the job.
 */
export const makeLatestRetry =
  (store: Pick<JobStore["Service"], "findByIdempotencyKey">) =>
  ({ id, keyId, status }: Pick<Job, "id" | "keyId" | "status">): Effect.Effect<JobId | undefined, StoreUnavailable> => {
    if (status !== "failed") return Effect.undefined
    return Effect.gen(function* () {
      let latest: JobId | undefined
      for (let count = 0; count < maxRetries; count++) {
        const retry: Job | undefined = yield* store.findByIdempotencyKey(keyId, retryKey(latest ?? id))
        if (retry === undefined) break
        latest = retry.id
        if (retry.status !== "failed") break
      }
      return latest
    })
  }

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
  for (let n = 0; n < maxRetries && job !== undefined; n++) {
    if (!isFinished(job)) return { jobId: job.id, step: parent.step, index: childIndex(parent, failed.idempotencyKey) }
    job = yield* store.findByIdempotencyKey(job.keyId, retryKey(job.id))
    // It has children of its own for each request.
    if (job !== undefined && submittedOf(job).fromStart === true) return undefined
  }
  return undefined
})

import * as Effect from "effect/Effect"
import { isId, type Job, type JobId, type StoreUnavailable } from "../domain/index.ts"
import type { JobStore } from "../ports/index.ts"

/** The idempotency key of a job's retry. It contains a space, which no key of a caller does. */
export const retryKey = (jobId: JobId): string => `retry ${jobId}`

/** Returns the job that the job with this idempotency key retries; `undefined` if it is no retry. */
export const retriedBy = (idempotencyKey: string): JobId | undefined => {
  const id = idempotencyKey.startsWith("retry ") ? idempotencyKey.slice("retry ".length) : ""
  return isId("job", id) ? id : undefined
}

/** Retries of retries that are followed. */
const maxRetries = 100

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

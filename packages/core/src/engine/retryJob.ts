import * as Effect from "effect/Effect"
import {
  authorize,
  isId,
  type Job,
  type JobId,
  type Principal,
  type Submitted,
  submittedOf,
  uniqueOf,
  withUnique,
} from "../domain/index.ts"
import { JobNotRetryable, KindUnknown } from "../domain/Errors.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { JobStore } from "../ports/index.ts"
import { type Accepted, acceptedOf } from "./acceptedOf.ts"
import { makePrepareJob, readDraft, traceIn } from "./prepareJob.ts"
import { readJob } from "./readJob.ts"

/**
 * What the retry of a job carries. The parent of a failed child is not its parent: it has that failure as the child's result, and a
 * step with one child more than it asked for would be a bug of its kind.
 */
const submittedByCaller = (failed: Job): Submitted => {
  const { parent: _, ...submitted } = submittedOf(failed)
  return submitted
}

/** The idempotency key of the retry of a job. It contains a space, which no key of a caller does. */
const retryKey = (jobId: JobId): string => `retry ${jobId}`

/** Returns the job that the job with this idempotency key retries; `undefined` if it is no retry. */
export const retriedBy = (idempotencyKey: string): JobId | undefined => {
  const id = idempotencyKey.startsWith("retry ") ? idempotencyKey.slice("retry ".length) : ""
  return isId("job", id) ? id : undefined
}

/**
 * Retries a failed job as a new one. Its idempotency key consists of the failed job's id and a space, which no key of a caller
 * contains: two retries of one job create one job, and a retry that failed can be retried too.
 */
export const retryJob = Effect.fnUntraced(function* (kinds: ReadonlyArray<JobKind>, jobId: string) {
  const failed = yield* readJob(jobId)
  const kind = kinds.find(({ name }) => name === failed.kind)
  if (kind === undefined)
    return yield* Effect.fail(new KindUnknown({ kind: failed.kind, known: kinds.map(({ name }) => name) }))
  if (failed.status !== "failed" || failed.request === null) return yield* Effect.fail(new JobNotRetryable())
  const { keyId, mode, projectId } = failed
  const store = yield* JobStore
  const key = retryKey(failed.id)
  // Looked up first: an earlier retry has taken over the upload, so a second draft would be refused.
  const earlier = yield* store.findByIdempotencyKey(keyId, key)
  if (earlier !== undefined) return { job: earlier, replayed: true } satisfies Accepted
  const owner: Principal = { keyId, mode, projectId, scopes: [kind.keyScope] }
  const grant = authorize(owner, kind.keyScope)
  if (grant === undefined) return yield* Effect.die(new Error("authorize() refused a scope that the principal has"))
  const draft = readDraft({
    grant,
    kind,
    request: failed.request,
    idempotencyKey: key,
    placement: { priority: failed.priority, submitted: submittedByCaller(failed), retryOf: failed.id },
  })
  // The kind may have changed since, and refuse the stored request.
  if (draft._tag === "Failure") return yield* Effect.fail(new JobNotRetryable())
  const prepare = yield* makePrepareJob
  const job = yield* Effect.withFiber((fiber) => Effect.succeed(prepare(draft.success, traceIn(fiber))))
  // A retry that was deleted by age had taken over the upload.
  if (job.uploadId !== failed.uploadId) return yield* Effect.fail(new JobNotRetryable())
  const unique = uniqueOf(failed)
  const metadata = withUnique(job.metadata, unique)
  const [outcome] = yield* store.createJobs([{ ...job, metadata, unique }])
  if (outcome?._tag === "NotRetryable") return yield* Effect.fail(new JobNotRetryable())
  // The caller asked for one job of this scope at a time, and got a newer one.
  if (outcome?._tag === "Duplicate") return yield* Effect.fail(new JobNotRetryable({ duplicateOf: outcome.job.id }))
  return yield* Effect.fromResult(acceptedOf(outcome))
})

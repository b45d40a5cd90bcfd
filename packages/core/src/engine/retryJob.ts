import * as Effect from "effect/Effect"
import { authorize, type Principal } from "../domain/index.ts"
import { JobNotRetryable, KindUnknown } from "../domain/Errors.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { JobStore } from "../ports/index.ts"
import { type Accepted, acceptedOf } from "./acceptedOf.ts"
import { makePrepareJob, readDraft } from "./prepareJob.ts"
import { readJob } from "./readJob.ts"

/**
 * Tries a failed job again, as a new one. Its idempotency key is made of the failed job's id, with a space that no caller's
 * key has: so two retries of one job are one, and a retry that failed as well can be retried in its turn.
 */
export const retryJob = Effect.fnUntraced(function* (kinds: ReadonlyArray<JobKind>, jobId: string) {
  const failed = yield* readJob(jobId)
  const kind = kinds.find(({ name }) => name === failed.kind)
  if (kind === undefined)
    return yield* Effect.fail(new KindUnknown({ kind: failed.kind, known: kinds.map(({ name }) => name) }))
  if (failed.status !== "failed" || failed.request === null) return yield* Effect.fail(new JobNotRetryable())
  const { keyId, mode, projectId } = failed
  const store = yield* JobStore
  const key = `retry ${failed.id}`
  // Found first: what it consumed went over to the earlier retry, and it could not be drafted again.
  const earlier = yield* store.findByIdempotencyKey(keyId, key)
  if (earlier !== undefined) return { job: earlier, replayed: true } satisfies Accepted
  const owner: Principal = { keyId, mode, projectId, scopes: [kind.keyScope] }
  const grant = authorize(owner, kind.keyScope)
  if (grant === undefined) return yield* Effect.die(new Error("a principal has the scopes it was given"))
  const draft = readDraft({
    grant,
    kind,
    request: failed.request,
    idempotencyKey: key,
    placement: { priority: failed.priority },
  })
  // An old request that the present kind does not take cannot be tried again.
  if (draft._tag === "Failure") return yield* Effect.fail(new JobNotRetryable())
  const job = (yield* makePrepareJob)(draft.success)
  // What it consumed went over to a retry that is gone by age.
  if (job.uploadId !== failed.uploadId) return yield* Effect.fail(new JobNotRetryable())
  const [outcome] = yield* store.createJobs([{ ...job, retryOf: failed.id }])
  if (outcome?._tag === "NotRetryable") return yield* Effect.fail(new JobNotRetryable())
  return yield* Effect.fromResult(acceptedOf(outcome))
})

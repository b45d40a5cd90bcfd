import { Effect } from "effect"
import { authorize, type Principal } from "../domain/index.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { JobStore } from "../ports/index.ts"
import { acceptedOf, announce } from "./CreateJob.ts"
import { JobNotRetryable, KindUnknown } from "./errors.ts"
import { prepareJob, readDraft } from "./prepareJob.ts"
import { readJob } from "./ReadJob.ts"

/**
 * Tries a failed job again, as a new one. Its idempotency key is made of the failed job's id, with a space that no caller's
 * key has: so two retries of one job are one, and a retry that failed as well can be retried in its turn.
 */
export const retryJob = Effect.fnUntraced(function* (kinds: ReadonlyArray<JobKind>, jobId: string) {
  const failed = yield* readJob(jobId)
  const kind = kinds.find(({ name }) => name === failed.kind)
  if (kind === undefined) return yield* new KindUnknown({ kind: failed.kind })
  if (failed.status !== "failed" || failed.request === null) return yield* new JobNotRetryable()
  const { keyId, mode, projectId } = failed
  const owner: Principal = { keyId, mode, projectId, scopes: [kind.keyScope] }
  const grant = authorize(owner, kind.keyScope)
  if (grant === undefined) return yield* Effect.die(new Error("a principal has the scopes it was given"))
  const draft = readDraft(grant, kind, failed.request, `retry ${failed.id}`, { priority: failed.priority })
  // An old request that the present kind does not take cannot be tried again.
  if (draft._tag === "Failure") return yield* new JobNotRetryable()
  const store = yield* JobStore
  const job = yield* prepareJob(draft.success)
  const [outcome] = yield* store.createJobs([{ ...job, retryOf: failed.id, uploadId: failed.uploadId }])
  const accepted = yield* Effect.fromResult(acceptedOf(outcome))
  yield* announce(accepted)
  return accepted
})

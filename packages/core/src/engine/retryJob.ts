import * as Effect from "effect/Effect"
import { authorize, type Job, type JsonObject, type Principal, submittedOf } from "../domain/index.ts"
import type { ParentStep } from "../domain/Child.ts"
import {
  askedFingerprint,
  type JobTrace,
  type Submitted,
  submittedField,
  traceField,
  uniqueOf,
  withSubmitted,
  withTrace,
  withUnique,
} from "../domain/JobMetadata.ts"
import { type InvalidRequest, JobNotRetryable, KindUnknown } from "../domain/Errors.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { IdGenerator, JobStore, type NewJob, Switchboard } from "../ports/index.ts"
import { retryKey, waitingParent } from "./latestRetry.ts"
import { type AcceptedJob, acceptedOf } from "./createJob.ts"
import { makePrepareJob, readDraft, traceIn } from "./prepareJob.ts"
import { readJob } from "./readJob.ts"
import { EngineConfig } from "./EngineConfig.ts"

/** Options of a retry. */
export interface RetryOptions {
  /** Runs all steps and children again. By default, those that the failed job had finished are kept. */
  readonly from?: "start" | undefined
  /**
   * The request of the new job, instead of that of the failed one; read by its kind as a submitted one is. All steps and children then
   * run again, because the finished ones belong to the failed job's request.
   */
  readonly request?: unknown
}

/** Returns the parts of a job that its retry carries over, with the step that waits for it. */
const submittedAgain = (failed: Job, parent: ParentStep | undefined, { from, request }: RetryOptions): Submitted => {
  const { fromStart: _fromStart, parent: _parent, ...submitted } = submittedOf(failed)
  const isChanged = request !== undefined
  return {
    ...submitted,
    ...(parent && { parent }),
    ...((from === "start" || isChanged) && { fromStart: true }),
    ...(isChanged && { changedFrom: askedFingerprint(failed) }),
  }
}

/**
 * Retries a failed job as a new one. Its idempotency key consists of the failed job's id and a space, which no key of a caller
 * contains: two retries of one job create one job, and a retry that failed can be retried too. A kind that this process does not
 * know is retried with the stored request as it is. The retry of a child belongs to its parent as long as that is unfinished. Fails with
 * `InvalidRequest` or `KindUnknown` only for a changed request.
 */
export const retryJob = Effect.fnUntraced(function* (
  kinds: ReadonlyArray<JobKind>,
  jobId: string,
  options: RetryOptions = {},
) {
  const { request: changed } = options
  const failed = yield* readJob(jobId)
  const { keyId, request } = failed
  if (failed.status !== "failed" || request === null) return yield* Effect.fail(new JobNotRetryable())
  const store = yield* JobStore
  const key = retryKey(failed.id)
  // Looked up first: an earlier retry has taken over the upload, so a second draft would be refused.
  const earlier = yield* store.findByIdempotencyKey(keyId, key)
  if (earlier !== undefined && changed === undefined) return { job: earlier, replayed: true } satisfies AcceptedJob
  const kind = kinds.find(({ name }) => name === failed.kind)
  if (kind === undefined && changed !== undefined)
    return yield* Effect.fail(new KindUnknown({ kind: failed.kind, known: kinds.map(({ name }) => name) }))
  const trace = yield* Effect.withFiber((fiber) => Effect.succeed(traceIn(fiber)))
  const submitted = submittedAgain(failed, yield* waitingParent(failed), options)
  const job = yield* kind === undefined
    ? retryUnknownKind({ ...failed, request }, submitted, key, trace)
    : retryOfKind({ ...failed, request }, submitted, kind, key, { changed, earlier, trace })
  if (earlier !== undefined)
    return earlier.fingerprint === job.fingerprint
      ? ({ job: earlier, replayed: true } satisfies AcceptedJob)
      : yield* Effect.fail(new JobNotRetryable({ retriedAs: earlier.id }))
  const unique = uniqueOf(failed)
  const [outcome] = yield* store.createJobs([{ ...job, metadata: withUnique(job.metadata, unique), unique }])
  // Another retry came first, at the same time.
  if (outcome?._tag === "KeyReused") return yield* Effect.fail(new JobNotRetryable({ retriedAs: outcome.job.id }))
  if (outcome?._tag === "NotRetryable") return yield* Effect.fail(new JobNotRetryable())
  // The caller asked for one job of this scope at a time, and got a newer one.
  if (outcome?._tag === "Duplicate") return yield* Effect.fail(new JobNotRetryable({ duplicateOf: outcome.job.id }))
  return yield* Effect.fromResult(acceptedOf(outcome))
})

/** Returns the retry of a job, with its request, or the changed one, read by the kind as it is now. */
const retryOfKind = Effect.fnUntraced(function* (
  failed: Job & { readonly request: JsonObject },
  submitted: Submitted,
  kind: JobKind,
  key: string,
  {
    changed,
    earlier,
    trace,
  }: { readonly changed: unknown; readonly earlier: Job | undefined; readonly trace: JobTrace | undefined },
) {
  const { keyId, mode, priority, projectId } = failed
  const isChanged = changed !== undefined
  const owner: Principal = { keyId, mode, projectId, scopes: [kind.keyScope] }
  const grant = authorize(owner, kind.keyScope)
  if (grant === undefined) return yield* Effect.die(new Error("authorize() refused a scope that the principal has"))
  const draft = readDraft({
    grant,
    kind,
    request: isChanged ? changed : failed.request,
    idempotencyKey: key,
    placement: { priority, submitted, retryOf: failed.id, uncapped: submitted.parent !== undefined },
  })
  // The kind may have changed since, and refuse the stored request.
  if (draft._tag === "Failure")
    return yield* Effect.fail<InvalidRequest | JobNotRetryable>(isChanged ? draft.failure : new JobNotRetryable())
  const prepare = yield* makePrepareJob
  const job = prepare(draft.success, trace)
  // The retry before has taken over the upload. One that was deleted by age has done so, too.
  if (earlier === undefined && job.uploadId !== failed.uploadId)
    return yield* Effect.fail(new JobNotRetryable({ uploadField: isChanged ? kind.upload : undefined }))
  return job
})

/** Metadata of the retry: without the trace of the failed job's submission. */
const metadataOf = (failed: Job, submitted: Submitted, trace: JobTrace | undefined): JsonObject => {
  const { [submittedField]: _submitted, [traceField]: _trace, ...fields } = failed.metadata
  return withTrace(withSubmitted(fields, submitted), trace)
}

/**
 * Returns the retry of a job whose kind this process does not know: the stored request, version, limits and price name, with the
 * switches that its running workers publish. What it may cost at most is unknown.
 */
const retryUnknownKind = Effect.fnUntraced(function* (
  failed: Job & { readonly request: JsonObject },
  submitted: Submitted,
  idempotencyKey: string,
  trace: JobTrace | undefined,
): Effect.fn.Return<NewJob, Effect.Error<Switchboard["Service"]["listWorkers"]>, IdGenerator | Switchboard> {
  const { forcedOff, queueCap, upload } = yield* EngineConfig
  const workers = yield* (yield* Switchboard).listWorkers
  const served = workers.flatMap(({ scope }) => scope?.kinds.filter(({ kind }) => kind === failed.kind) ?? [])
  return {
    id: (yield* IdGenerator).next("job"),
    projectId: failed.projectId,
    keyId: failed.keyId,
    mode: failed.mode,
    kind: failed.kind,
    kindVersion: failed.kindVersion,
    request: failed.request,
    metadata: metadataOf(failed, submitted, trace),
    priority: failed.priority,
    delayMs: 0,
    retryOf: failed.id,
    uploadId: failed.uploadId,
    maxTransfers: upload.maxTransfers,
    idempotencyKey,
    fingerprint: failed.fingerprint,
    gate:
      failed.mode === "sandbox"
        ? null
        : {
            price: failed.price?.name ?? null,
            meters: Object.keys(failed.price?.unitAmounts ?? {}),
            switches: [...new Set(served.flatMap(({ switches }) => switches))],
            liveWorker: null,
          },
    maxUsage: null,
    forcedOff,
    limits: { queueLimitMs: failed.queueLimitMs, runLimitMs: failed.runLimitMs },
    // Its parent was accepted.
    queueCap: submitted.parent === undefined ? queueCap : 0,
  }
})

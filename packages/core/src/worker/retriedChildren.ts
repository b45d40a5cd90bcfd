import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { childKey, type ParentStep } from "../domain/Child.ts"
import { isFinished, isUploadFault, type Job, type StoreUnavailable } from "../domain/index.ts"
import {
  type Asked,
  type Engine,
  type Fingerprint,
  type JobOutcomes,
  makeLatestRetry,
  retriedBy,
} from "../engine/index.ts"
import type { JobDirectory, JobStore } from "../ports/index.ts"

interface Services {
  readonly engine: Engine["Service"]
  readonly directory: JobDirectory["Service"]
  readonly fingerprint: Fingerprint["Service"]
  readonly store: JobStore["Service"]
}

/** The maximum number of retries of retries that are followed. */
const longestChain = 100

/**
 * Submits the children of a step. A child of a retried parent finds its upload used by the child of the failed parent that had the same
 * request: if that one failed too, the upload goes to the new child, as a retry takes over the upload of its job; if it is done or
 * unfinished, it counts as the child of the retried parent as well, because an upload serves one job. So does a child that failed
 * because of its upload, which was erased.
 */
export const submitChildren = Effect.fnUntraced(function* (
  services: Services,
  parent: Job,
  { step }: ParentStep,
  asked: ReadonlyArray<Asked>,
): Effect.fn.Return<JobOutcomes, StoreUnavailable> {
  const outcomes = yield* services.engine.createJobs(asked)
  if (retriedBy(parent.idempotencyKey) === undefined) return outcomes
  const settled = [...outcomes]
  for (const [index, each] of asked.entries()) {
    const outcome = outcomes[index]
    if (outcome === undefined || Result.isSuccess(outcome) || outcome.failure._tag !== "UploadAlreadyUsed") continue
    const earlier = yield* earlierChild(services, parent, step, index)
    if (earlier === undefined || !isOfRequest(services, each, earlier)) continue
    if (earlier.status !== "failed" || isUploadFault(earlier.errorCode))
      settled[index] = Result.succeed({ job: earlier, replayed: true })
    else {
      const [again] = yield* services.engine.createJobs([
        { ...each, placement: { ...each.placement, retryOf: earlier.id } },
      ])
      if (again !== undefined) settled[index] = again
    }
  }
  return settled
})

/**
 * Counts the children of a step that are those of an earlier parent, because these have the uploads. They do not have the label of the
 * step.
 */
export const countEarlierChildren = Effect.fnUntraced(function* (
  services: Services,
  parent: Job,
  { jobId, step }: ParentStep,
  asked: ReadonlyArray<Asked>,
): Effect.fn.Return<number, StoreUnavailable> {
  if (retriedBy(parent.idempotencyKey) === undefined) return 0
  let count = 0
  for (const [index, each] of asked.entries()) {
    const own = yield* services.store.findByIdempotencyKey(parent.keyId, childKey({ jobId, step }, index))
    if (own !== undefined) continue
    const earlier = yield* earlierChild(services, parent, step, index)
    if (earlier !== undefined && isOfRequest(services, each, earlier)) count += 1
  }
  return count
})

/** Finds the child that has the upload, of the job that the parent retries, or of the one that this retried. */
const earlierChild = Effect.fnUntraced(function* (
  { directory, store }: Services,
  parent: Job,
  step: string,
  index: number,
) {
  const latestRetry = makeLatestRetry(store)
  /** An operator may have retried the child itself, which took the upload over. */
  const latestOf = Effect.fnUntraced(function* (child: Job) {
    const id = yield* latestRetry(child)
    return id === undefined ? child : (yield* directory.readJobs([id]))[0]
  })
  let job: Job | undefined = parent
  for (let n = 0; n < longestChain && job !== undefined; n++) {
    const jobId = retriedBy(job.idempotencyKey)
    if (jobId === undefined) return undefined
    const child = yield* store.findByIdempotencyKey(parent.keyId, childKey({ jobId, step }, index))
    const latest = child && (yield* latestOf(child))
    // A finished child without its data has neither a result nor an upload to give.
    if (latest?.uploadId != null && (!isFinished(latest) || latest.retained === "kept")) return latest
    ;[job] = yield* directory.readJobs([jobId])
  }
  return undefined
})

const isOfRequest = ({ fingerprint }: Services, { kind, request }: Asked, child: Job): boolean => {
  const read = kind.reader.read(request)
  return (
    Result.isSuccess(read) &&
    child.kind === kind.name &&
    child.fingerprint === fingerprint.of(kind.name, read.success.stored, read.success.canonical)
  )
}

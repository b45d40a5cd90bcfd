import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { childIndex, type ParentStep, stepLabel } from "../../domain/Child.ts"
import { askedFingerprint } from "../../domain/JobMetadata.ts"
import { isFinished, type Job, type JobId, type StoreUnavailable, submittedOf } from "../../domain/index.ts"
import { isUploadFault } from "../../domain/rules.ts"
import { idsOfLabel } from "../../engine/childrenOf.ts"
import {
  type Engine,
  type Fingerprint,
  type JobOutcomes,
  type JobRequest,
  makeLatestRetry,
  retriedBy,
  retryKey,
} from "../../engine/index.ts"
import type { JobDirectory, JobStore } from "../../ports/index.ts"
import { continued, longestChain } from "./inherited.ts"

interface Services {
  readonly engine: Engine["Service"]
  readonly directory: JobDirectory["Service"]
  readonly fingerprint: Fingerprint["Service"]
  readonly store: JobStore["Service"]
}

/** A child to submit, with the number of its request. */
export interface AskedChild {
  readonly index: number
  readonly request: JobRequest
}

/** The outcome of each child, by the number of its request. */
export type ChildOutcomes = ReadonlyMap<number, JobOutcomes[number]>

/** Jobs in one call that reads them. */
const pageSize = 500
/** Children that are submitted before the attempt looks whether it was canceled. */
const submittedAtOnce = 1_000

/** Reads the children of a step by the numbers of their requests. The retry of a child takes its place. */
export const readChildrenOf = Effect.fnUntraced(function* (
  directory: JobDirectory["Service"],
  parent: ParentStep,
): Effect.fn.Return<Map<number, Job>, StoreUnavailable> {
  const ids = yield* idsOfLabel(directory, stepLabel(parent))
  const jobs: Array<Job> = []
  for (let from = 0; from < ids.length; from += pageSize)
    for (const job of yield* directory.readJobs(ids.slice(from, from + pageSize))) if (job !== undefined) jobs.push(job)
  const retried = new Set<string | undefined>(jobs.map(({ idempotencyKey }) => retriedBy(idempotencyKey)))
  const children = new Map<number, Job>()
  for (const job of jobs) {
    const { parent: own = parent } = submittedOf(job)
    const index = childIndex(own, job.idempotencyKey)
    const other = children.get(index)
    if (!retried.has(job.id) && (other === undefined || other.createdAt <= job.createdAt)) children.set(index, job)
  }
  return children
})

/**
 * Submits children that a parent does not have. A parent that is a retry takes over what the failed one had: a child that is done or
 * unfinished counts as its own, and one that failed is retried. A retry from the start takes over only children that have used their
 * upload, because an upload serves one job. A child that failed because of its upload, which was erased, counts as it failed.
 */
export const submitChildren = Effect.fnUntraced(function* (
  services: Services,
  parent: Job,
  { step }: ParentStep,
  asked: ReadonlyArray<AskedChild>,
): Effect.fn.Return<ChildOutcomes, StoreUnavailable> {
  const outcomes = new Map<number, JobOutcomes[number]>()
  const submit = Effect.fnUntraced(function* (children: ReadonlyArray<AskedChild>) {
    for (let from = 0; from < children.length; from += submittedAtOnce) {
      const some = children.slice(from, from + submittedAtOnce)
      // None is on its way to the store when an interrupted attempt looks for those that it left.
      const created = yield* Effect.uninterruptible(services.engine.createJobs(some.map(({ request }) => request)))
      created.forEach((outcome, n) => outcomes.set(some[n]?.index ?? -1, outcome))
    }
  })
  const takeOver = Effect.fnUntraced(function* (
    children: ReadonlyArray<AskedChild>,
    earlier: ReadonlyMap<number, Job>,
    keyOf: (child: AskedChild, job: Job) => string | undefined,
  ) {
    const again: Array<AskedChild> = []
    for (const child of children) {
      const { index, request } = child
      const job = earlier.get(index)
      // A finished child without its data has neither a result nor an upload to give.
      const isGone = job !== undefined && isFinished(job) && job.retained !== "kept"
      if (job === undefined || isGone || !isOfRequest(services, request, job)) continue
      if (job.status !== "failed" || isUploadFault(job.errorCode))
        outcomes.set(index, Result.succeed({ job, replayed: true }))
      else
        again.push({
          index,
          request: {
            ...request,
            idempotencyKey: keyOf(child, job),
            placement: { ...request.placement, retryOf: job.id },
          },
        })
    }
    yield* submit(again)
  })

  if (continued(parent) !== undefined)
    yield* takeOver(asked, yield* earlierChildren(services, parent, step, asked, continued), (_, job) =>
      retryKey(job.id),
    )
  yield* submit(asked.filter(({ index }) => !outcomes.has(index)))
  const chain = ({ idempotencyKey }: Job) => retriedBy(idempotencyKey)
  const withoutUpload = asked.filter(({ index }) => {
    const outcome = outcomes.get(index)
    return outcome !== undefined && Result.isFailure(outcome) && outcome.failure._tag === "UploadAlreadyUsed"
  })
  if (withoutUpload.length > 0 && chain(parent) !== undefined)
    yield* takeOver(
      withoutUpload,
      yield* earlierChildren(services, parent, step, withoutUpload, chain),
      ({ request }) => request.idempotencyKey,
    )
  return outcomes
})

/** Finds the children of the job that the parent retries, or of the one that this retried. */
const earlierChildren = Effect.fnUntraced(function* (
  { directory, store }: Services,
  parent: Job,
  step: string,
  asked: ReadonlyArray<AskedChild>,
  chain: (job: Job) => JobId | undefined,
): Effect.fn.Return<ReadonlyMap<number, Job>, StoreUnavailable> {
  const latestRetry = makeLatestRetry(store)
  /** An operator may have retried the child itself, which took the upload over. */
  const latestOf = Effect.fnUntraced(function* (child: Job) {
    const id = yield* latestRetry(child)
    return id === undefined ? child : ((yield* directory.readJobs([id]))[0] ?? child)
  })
  const found = new Map<number, Job>()
  let id = chain(parent)
  for (let n = 0; n < longestChain && id !== undefined; n++) {
    const children = yield* readChildrenOf(directory, { jobId: id, step })
    for (const { index } of asked) {
      const child = found.has(index) ? undefined : children.get(index)
      if (child !== undefined) found.set(index, yield* latestOf(child))
    }
    if (found.size === asked.length) break
    const [earlier]: ReadonlyArray<Job | undefined> = yield* directory.readJobs([id])
    id = earlier && chain(earlier)
  }
  return found
})

const isOfRequest = ({ fingerprint }: Services, { kind, request }: JobRequest, child: Job): boolean => {
  const read = kind.reader.read(request)
  return (
    Result.isSuccess(read) &&
    child.kind === kind.name &&
    askedFingerprint(child) === fingerprint.of(kind.name, read.success.stored, read.success.canonical)
  )
}

import * as Effect from "effect/Effect"
import { isId, type JobId, type StoreUnavailable, submittedOf } from "../domain/index.ts"
import { JobFinished, JobNotFound } from "../domain/Errors.ts"
import { JobDirectory, JobStore } from "../ports/index.ts"
import { unfinishedChildren } from "./childrenOf.ts"
import { emitFailed, JobEvents } from "./JobEvents.ts"
import { maxRetries, retriedBy } from "./latestRetry.ts"

/** Jobs in one call of the store. */
const pageSize = 500
/** Maximum number of jobs whose children are listed at the same time: a job may have thousands of children. */
const listsAtOnce = 8

/** Fails an unfinished job, claimed or not, and its children. An attempt in this process is interrupted at once. */
export const cancelJob = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const store = yield* JobStore
  const [outcome] = yield* store.cancelJobs([jobId])
  switch (outcome) {
    case "Canceled": {
      const events = yield* JobEvents
      events.emit({ type: "canceled", jobId })
      yield* cancelChildren([jobId])
      return yield* emitFailed([jobId])
    }
    case "AlreadyFinished": {
      // A repeated call goes on with children that an earlier one left.
      yield* cancelLeftChildren(jobId)
      return yield* Effect.fail(new JobFinished())
    }
    default:
      return yield* Effect.fail(new JobNotFound())
  }
})

/** Cancels the unfinished children of a job that was canceled. One that ended otherwise leaves them running, perhaps for its retry. */
export const cancelLeftChildren = Effect.fnUntraced(function* (jobId: JobId) {
  const [ended] = yield* (yield* JobDirectory).readJobs([jobId])
  if (ended?.errorCode === "canceled_by_operator") yield* cancelChildren([jobId])
})

/** Cancels the unfinished children of these jobs, level by level. */
const cancelChildren: (
  jobIds: ReadonlyArray<JobId>,
) => Effect.Effect<void, StoreUnavailable, JobStore | JobDirectory | JobEvents> = Effect.fnUntraced(function* (jobIds) {
  const directory = yield* JobDirectory
  const store = yield* JobStore
  const events = yield* JobEvents
  const found = yield* Effect.forEach(
    yield* withRetried(directory, jobIds),
    (parent) => childrenOf(directory, parent),
    { concurrency: listsAtOnce },
  )
  const begun = found.flatMap((children) => children.begun)
  for (const children of pagesOf([...found.flatMap(({ queued }) => queued), ...begun])) {
    const outcomes = yield* store.cancelJobs(children)
    const canceled = children.filter((_, index) => outcomes[index] === "Canceled")
    for (const id of canceled) events.emit({ type: "canceled", jobId: id })
    yield* emitFailed(canceled)
  }
  // A job that never began has no children. If it has begun since, its attempt finds that it was canceled, and cancels them.
  if (begun.length > 0) yield* cancelChildren(begun)
})

interface Parent {
  readonly id: JobId
  /** Whether it was retried from the start: that retry takes over only children that have used their upload. */
  readonly isLeft: boolean
}

/** Adds the jobs that these retry: a retry takes over children that its failed job left running. */
const withRetried = Effect.fnUntraced(function* (directory: JobDirectory["Service"], jobIds: ReadonlyArray<JobId>) {
  const all: Array<Parent> = []
  let next: ReadonlyArray<Parent> = jobIds.map((id) => ({ id, isLeft: false }))
  for (let n = 0; n <= maxRetries && next.length > 0; n++) {
    all.push(...next)
    const retried: Array<Parent> = []
    for (const page of pagesOf(next)) {
      const jobs = yield* directory.readJobs(page.map(({ id }) => id))
      for (const [at, job] of jobs.entries()) {
        const id = job && retriedBy(job.idempotencyKey)
        if (job !== undefined && id !== undefined)
          retried.push({ id, isLeft: page[at]?.isLeft === true || submittedOf(job).fromStart === true })
      }
    }
    next = retried
  }
  return all
})

/** The unfinished children of a job, without those that no retry took over. */
const childrenOf = Effect.fnUntraced(function* (directory: JobDirectory["Service"], { id, isLeft }: Parent) {
  const { begun, queued } = yield* unfinishedChildren(directory, id)
  if (!isLeft) return { begun, queued }
  const taken = new Set<JobId>()
  for (const page of pagesOf([...begun, ...queued]))
    for (const job of yield* directory.readJobs(page)) if (job !== undefined && job.uploadId !== null) taken.add(job.id)
  return { begun: begun.filter((child) => taken.has(child)), queued: queued.filter((child) => taken.has(child)) }
})

const pagesOf = <A>(all: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(all.length / pageSize) }, (_, page) =>
    all.slice(page * pageSize, (page + 1) * pageSize),
  )

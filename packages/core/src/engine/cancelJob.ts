import * as Effect from "effect/Effect"
import { isId, type JobId, type StoreUnavailable } from "../domain/index.ts"
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
      // A repeated call goes on with children that an earlier one left. A job that ended otherwise leaves them running, perhaps for its retry.
      const [ended] = yield* (yield* JobDirectory).readJobs([jobId])
      if (ended?.errorCode === "canceled_by_operator") yield* cancelChildren([jobId])
      return yield* Effect.fail(new JobFinished())
    }
    default:
      return yield* Effect.fail(new JobNotFound())
  }
})

/** Cancels the unfinished children of these jobs, level by level. */
export const cancelChildren: (
  jobIds: ReadonlyArray<JobId>,
) => Effect.Effect<void, StoreUnavailable, JobStore | JobDirectory | JobEvents> = Effect.fnUntraced(function* (jobIds) {
  const directory = yield* JobDirectory
  const store = yield* JobStore
  const events = yield* JobEvents
  const found = yield* Effect.forEach(
    yield* withRetried(directory, jobIds),
    (jobId) => unfinishedChildren(directory, jobId),
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

/** Adds the jobs that these retry: a retry takes over the children that its failed job left running. */
const withRetried = Effect.fnUntraced(function* (directory: JobDirectory["Service"], jobIds: ReadonlyArray<JobId>) {
  const all: Array<JobId> = []
  let next = jobIds
  for (let n = 0; n <= maxRetries && next.length > 0; n++) {
    all.push(...next)
    const retried: Array<JobId> = []
    for (const page of pagesOf(next))
      for (const job of yield* directory.readJobs(page)) {
        const id = job && retriedBy(job.idempotencyKey)
        if (id !== undefined) retried.push(id)
      }
    next = retried
  }
  return all
})

const pagesOf = <A>(all: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(all.length / pageSize) }, (_, page) =>
    all.slice(page * pageSize, (page + 1) * pageSize),
  )

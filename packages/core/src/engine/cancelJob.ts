import * as Effect from "effect/Effect"
import { isId, type JobId, type StoreUnavailable } from "../domain/index.ts"
import { JobFinished, JobNotFound } from "../domain/Errors.ts"
import { JobDirectory, JobStore } from "../ports/index.ts"
import { unfinishedChildren } from "./childrenOf.ts"
import { emitFailed, JobEvents } from "./JobEvents.ts"

/** Fails an unfinished job, claimed or not, and its children. An attempt in this process is interrupted at once. */
export const cancelJob = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const store = yield* JobStore
  const [outcome] = yield* store.cancelJobs([jobId])
  // A repeated call goes on with children that an earlier one left.
  if (outcome === "Canceled" || outcome === "AlreadyFinished") yield* cancelChildren(jobId)
  switch (outcome) {
    case "Canceled": {
      const events = yield* JobEvents
      events.emit({ type: "canceled", jobId })
      return yield* emitFailed([jobId])
    }
    case "AlreadyFinished":
      return yield* Effect.fail(new JobFinished())
    default:
      return yield* Effect.fail(new JobNotFound())
  }
})

const cancelChildren: (jobId: JobId) => Effect.Effect<void, StoreUnavailable, JobStore | JobDirectory | JobEvents> =
  Effect.fnUntraced(function* (jobId) {
    const directory = yield* JobDirectory
    const children = yield* unfinishedChildren(directory, jobId)
    if (children.length === 0) return
    const store = yield* JobStore
    const events = yield* JobEvents
    const outcomes = yield* store.cancelJobs(children)
    const canceled = children.filter((_, index) => outcomes[index] === "Canceled")
    for (const id of canceled) events.emit({ type: "canceled", jobId: id })
    yield* emitFailed(canceled)
    yield* Effect.forEach(children, cancelChildren, { discard: true })
  })

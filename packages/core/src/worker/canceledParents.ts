import * as Effect from "effect/Effect"
import { type JobId, submittedOf } from "../domain/index.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"
import { cancelJob } from "../engine/cancelJob.ts"
import type { JobEvents } from "../engine/JobEvents.ts"
import { type AttemptError, LeaseLost } from "../kinds/AttemptContext.ts"
import { type Claim, JobDirectory, type JobStore } from "../ports/index.ts"

/** The time for which one check of a parent counts for its other children, in milliseconds. */
const countsForMs = 1_000

/**
 * Returns the check that a child's parent was not canceled. A parent that is canceled while it submits leaves children that its
 * cancellation does not find. They end here, before they cost anything. `undefined` for
 * jobs without a parent, which are not checked.
 */
export const makeParentCheck = Effect.gen(function* () {
  const context = yield* Effect.context<JobStore | JobDirectory | JobEvents>()
  const directory = yield* JobDirectory
  /** When each parent was last found not to be canceled, oldest first. */
  const lookedAt = new Map<JobId, number>()

  const check = Effect.fnUntraced(function* (child: JobId, parent: JobId): Effect.fn.Return<void, AttemptError> {
    const now = yield* monotonicMs
    for (const [id, at] of lookedAt) {
      if (now - at < countsForMs) break
      lookedAt.delete(id)
    }
    if (lookedAt.has(parent)) return
    const [found] = yield* directory.readJobs([parent])
    if (found?.errorCode !== "canceled_by_operator") {
      lookedAt.set(parent, now)
      return
    }
    // If it has ended otherwise meanwhile, that is as good.
    yield* cancelJob(child).pipe(
      Effect.catchTag(["JobFinished", "JobNotFound"], () => Effect.void),
      Effect.provideContext(context),
    )
    return yield* new LeaseLost()
  })

  return ({ job }: Claim): Effect.Effect<void, AttemptError> | undefined => {
    const { parent } = submittedOf(job)
    return parent === undefined ? undefined : check(job.id, parent.jobId)
  }
})

import * as Effect from "effect/Effect"
import { foreignPauseMs } from "../../domain/Child.ts"
import { isFinished, type Job, type JobId, submittedOf } from "../../domain/index.ts"
import { type Prerequisite, readPrerequisites } from "../../engine/prerequisites.ts"
import { type AttemptError, AttemptFailed, AttemptParked, type Child } from "../../kinds/AttemptContext.ts"
import type { JobDirectory, JobStore } from "../../ports/index.ts"
import { childOf } from "./children.ts"

/** Prerequisites that a message names. */
const maxNamed = 5

const failure = (job: Job, failed: ReadonlyArray<Prerequisite>, total: number): AttemptFailed => {
  const named = failed
    .slice(0, maxNamed)
    .map(({ id, latest }) => `${latest?.id ?? id} (${latest?.errorCode ?? "not found in this project and mode"})`)
  const more = failed.length > maxNamed ? ", …" : ""
  const message = `${failed.length} of ${total} prerequisites failed: ${named.join(", ")}${more}`
  return new AttemptFailed({
    errorCode: "prerequisite_failed",
    retry: false,
    detail: `${job.id}: ${message}`,
    publicMessage: message,
  })
}

/**
 * Returns the prerequisites of a job once all have finished, in their order. Until then it fails with `AttemptParked`, and the attempt
 * ends without holding a slot. The retry of a prerequisite takes its place. Fails the job if one failed, unless the job runs even then,
 * and if one does not exist: a job that names its prerequisites in a transaction is not checked before.
 */
export const awaitPrerequisites = Effect.fnUntraced(function* (
  services: { readonly store: JobStore["Service"]; readonly directory: JobDirectory["Service"] },
  job: Job,
  after: ReadonlyArray<JobId>,
  now: () => number,
): Effect.fn.Return<ReadonlyArray<Child>, AttemptError> {
  const prerequisites = yield* readPrerequisites(services, job, after)
  const isOpen = (of: Job | undefined) => of !== undefined && !isFinished(of)
  if (prerequisites.some(({ latest }) => isOpen(latest))) {
    // The end of a job that is named wakes this one, and that of its retry does not.
    const until = prerequisites.some(({ named }) => isOpen(named)) ? undefined : now() + foreignPauseMs
    return yield* new AttemptParked({ park: { reason: "after", subject: `${after.length}`, until } })
  }
  const runsAnyway = submittedOf(job).afterFailure === "run"
  const failed = prerequisites.filter(
    ({ latest }) => latest === undefined || (latest.status === "failed" && !runsAnyway),
  )
  if (failed.length > 0) return yield* failure(job, failed, after.length)
  return prerequisites.flatMap(({ latest }) => (latest === undefined ? [] : [childOf(latest)]))
})

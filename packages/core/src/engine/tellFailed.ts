import { Effect } from "effect"
import type { JobId } from "../domain/index.ts"
import { JobDirectory } from "../ports/index.ts"
import { JobEvents, refOf } from "./JobEvents.ts"
import { JobSignals } from "./JobSignals.ts"

/** Tells of jobs that were failed by a verb that knows no more of them than what they are called. What cannot be read is not told of. */
export const tellFailed = Effect.fnUntraced(function* (jobIds: ReadonlyArray<JobId>) {
  if (jobIds.length === 0) return
  const signals = yield* JobSignals
  const events = yield* JobEvents
  const directory = yield* JobDirectory
  yield* Effect.forEach(jobIds, signals.finished, { discard: true })
  const jobs = yield* Effect.orElseSucceed(directory.readJobs(jobIds), () => [])
  for (const job of jobs)
    if (job !== undefined && job.errorCode !== null)
      events.emit({ type: "failed", ...refOf(job), errorCode: job.errorCode })
})

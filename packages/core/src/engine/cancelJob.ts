import { Effect } from "effect"
import { isId, JobFinished, JobNotFound } from "../domain/index.ts"
import { JobStore } from "../ports/index.ts"
import { JobSignals } from "./JobSignals.ts"
import { tellFailed } from "./tellFailed.ts"

/** Fails an unfinished job, whoever has it in hand. An attempt in this process is told at once. */
export const cancelJob = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const store = yield* JobStore
  const [outcome] = yield* store.cancelJobs([jobId])
  switch (outcome) {
    case "Canceled": {
      const signals = yield* JobSignals
      yield* signals.canceled(jobId)
      return yield* tellFailed([jobId])
    }
    case "AlreadyFinished":
      return yield* Effect.fail(new JobFinished())
    default:
      return yield* Effect.fail(new JobNotFound())
  }
})

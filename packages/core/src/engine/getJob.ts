import * as Effect from "effect/Effect"
import { isId, type Job, type Principal } from "../domain/index.ts"
import { JobNotFound } from "../domain/Errors.ts"
import { JobStore } from "../ports/index.ts"

/** Returns a job of this caller. Jobs are always read by id and principal together. */
export const getJob = Effect.fnUntraced(function* (principal: Principal, jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const store = yield* JobStore
  const [job] = yield* store.findJobs([{ jobId, principal }])
  if (job === undefined) return yield* Effect.fail(new JobNotFound())
  return job satisfies Job
})

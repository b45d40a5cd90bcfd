import { Effect } from "effect"
import { isId, type Job, type Principal } from "../domain/index.ts"
import { JobStore } from "../ports/index.ts"
import { JobNotFound } from "./errors.ts"

/** The caller's job. The only way to read one: by id and principal together. */
export const getJob = Effect.fnUntraced(function* (principal: Principal, jobId: string) {
  if (!isId("job", jobId)) return yield* new JobNotFound()
  const store = yield* JobStore
  const [job] = yield* store.findJobs([{ jobId, principal }])
  if (job === undefined) return yield* new JobNotFound()
  return job satisfies Job
})

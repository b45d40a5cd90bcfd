import { Effect } from "effect"
import { isId } from "../domain/index.ts"
import { JobDirectory } from "../ports/index.ts"
import { JobNotFound } from "./errors.ts"

/** Any job, for whoever may see all of them. */
export const readJob = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* new JobNotFound()
  const directory = yield* JobDirectory
  const [job] = yield* directory.readJobs([jobId])
  return job ?? (yield* new JobNotFound())
})

import * as Effect from "effect/Effect"
import { isId } from "../domain/index.ts"
import { JobNotFound } from "../domain/Errors.ts"
import { JobDirectory } from "../ports/index.ts"

/** Returns a job of any project, for callers that may see all of them. */
export const readJob = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const directory = yield* JobDirectory
  const [job] = yield* directory.readJobs([jobId])
  return job ?? (yield* Effect.fail(new JobNotFound()))
})

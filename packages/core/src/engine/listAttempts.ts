import * as Effect from "effect/Effect"
import { isId } from "../domain/index.ts"
import { JobNotFound } from "../domain/Errors.ts"
import { JobDirectory } from "../ports/index.ts"

/** Returns the failed attempts of a job of any project, for callers that may see all of them. */
export const listAttempts = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const attempts = yield* (yield* JobDirectory).listAttempts(jobId)
  return attempts ?? (yield* Effect.fail(new JobNotFound()))
})

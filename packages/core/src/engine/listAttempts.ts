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

/** Returns why attempts of a job of any project ended to wait. */
export const listWaits = Effect.fnUntraced(function* (jobId: string) {
  if (!isId("job", jobId)) return yield* Effect.fail(new JobNotFound())
  const waits = yield* (yield* JobDirectory).listWaits(jobId)
  return waits ?? (yield* Effect.fail(new JobNotFound()))
})

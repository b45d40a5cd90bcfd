import * as Effect from "effect/Effect"
import { isId, type Job, type Principal, type StoreUnavailable } from "../domain/index.ts"
import { JobNotFound } from "../domain/Errors.ts"
import type { JobStore } from "../ports/index.ts"

/**
 * Returns the function that reads the caller's job, the only way to read one: by id and principal together. It takes the store
 * once, because providing services to each call costs more than the rest of it, and polls are the most frequent calls.
 */
export const makeGetJob =
  (store: JobStore["Service"]) =>
  (principal: Principal, jobId: string): Effect.Effect<Job, JobNotFound | StoreUnavailable> =>
    isId("job", jobId) ? Effect.flatMap(store.findJobs([{ jobId, principal }]), found) : notFound

const notFound = Effect.suspend(() => Effect.fail(new JobNotFound()))

const found = ([job]: ReadonlyArray<Job | undefined>): Effect.Effect<Job, JobNotFound> =>
  job === undefined ? notFound : Effect.succeed(job)

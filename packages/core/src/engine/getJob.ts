import * as Effect from "effect/Effect"
import { isId, type Job, type PolledJob, type Principal, type StoreUnavailable } from "../domain/index.ts"
import { JobNotFound } from "../domain/Errors.ts"
import type { JobStore } from "../ports/index.ts"

type Read<A> = (principal: Principal, jobId: string) => Effect.Effect<A, JobNotFound | StoreUnavailable>

/*
 * The only ways to read a caller's job: by id and principal together. They take the store once, because providing services to each
 * call costs more than the rest of it, and polls are the most frequent calls.
 */

export const makeGetJob =
  (store: JobStore["Service"]): Read<Job> =>
  (principal, jobId) =>
    isId("job", jobId) ? Effect.flatMap(store.findJobs([{ jobId, principal }]), found) : notFound

export const makePollJob =
  (store: JobStore["Service"]): Read<PolledJob> =>
  (principal, jobId) =>
    isId("job", jobId) ? Effect.flatMap(store.pollJobs([{ jobId, principal }]), found) : notFound

const notFound = Effect.suspend(() => Effect.fail(new JobNotFound()))

const found = <A>([job]: ReadonlyArray<A | undefined>): Effect.Effect<A, JobNotFound> =>
  job === undefined ? notFound : Effect.succeed(job)

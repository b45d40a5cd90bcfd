import * as Effect from "effect/Effect"
import { PrerequisiteNotFound } from "../domain/Errors.ts"
import { isFinished, isId, type Job, type JobId, type StoreUnavailable } from "../domain/index.ts"
import type { JobDirectory, JobStore } from "../ports/index.ts"
import { makeLatestRetry } from "./latestRetry.ts"
import type { JobRequest } from "./prepareJob.ts"
import type { JobReader } from "./waitForJob.ts"

/** A job that another one starts after. */
export interface Prerequisite {
  readonly id: JobId
  /** The job of this id; `undefined` if there is none in the project and mode of the dependent. */
  readonly named: Job | undefined
  /** Its newest retry, which takes its place. The job itself if it was not retried. */
  readonly latest: Job | undefined
}

interface Services {
  readonly store: Pick<JobStore["Service"], "findByIdempotencyKey">
  readonly directory: JobDirectory["Service"]
}

type Owner = Pick<Job, "projectId" | "mode">

const isOf = ({ mode, projectId }: Owner, job: Owner): boolean => job.projectId === projectId && job.mode === mode

/** Reads the prerequisites of a job, in their order. */
export const readPrerequisites = Effect.fnUntraced(function* (
  { directory, store }: Services,
  dependent: Owner,
  after: ReadonlyArray<JobId>,
): Effect.fn.Return<ReadonlyArray<Prerequisite>, StoreUnavailable> {
  const latestRetry = makeLatestRetry(store)
  const jobs = yield* directory.readJobs(after)
  return yield* Effect.forEach(
    after,
    Effect.fnUntraced(function* (id, index) {
      const job = jobs[index]
      const named = job !== undefined && isOf(dependent, job) ? job : undefined
      const retry = named && (yield* latestRetry(named))
      const [latest] = retry === undefined ? [named] : yield* directory.readJobs([retry])
      return { id, named, latest: latest ?? named }
    }),
  )
})

/** Counts the prerequisites that have not finished. */
export const countUnfinished = (prerequisites: ReadonlyArray<Prerequisite>): number =>
  prerequisites.filter(({ latest }) => latest !== undefined && !isFinished(latest)).length

/**
 * Fails for a new job that names a prerequisite which does not exist, or belongs to another project or mode. A repeated submission
 * returns its job, whatever has become of the prerequisites since.
 */
export const makeCheckPrerequisites =
  ({ findByIdempotencyKey }: Services["store"], { read }: JobReader["Service"]) =>
  ({ grant, idempotencyKey, placement }: JobRequest): Effect.Effect<void, PrerequisiteNotFound | StoreUnavailable> => {
    const { after } = placement?.submitted ?? {}
    if (after === undefined || after.length === 0) return Effect.void
    return Effect.gen(function* () {
      const jobs = yield* Effect.forEach(after, (id) => (isId("job", id) ? read(id) : Effect.undefined), {
        concurrency: "unbounded",
      })
      const missing = after.find((_, index) => {
        const job = jobs[index]
        return job === undefined || !isOf(grant, job)
      })
      if (missing === undefined) return
      const earlier =
        idempotencyKey === undefined ? undefined : yield* findByIdempotencyKey(grant.keyId, idempotencyKey)
      if (earlier === undefined) return yield* Effect.fail(new PrerequisiteNotFound({ jobId: missing }))
    })
  }

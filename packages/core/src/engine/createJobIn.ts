import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { StoreUnavailable } from "../domain/index.ts"
import type { JobTrace } from "../domain/JobMetadata.ts"
import { CallerTransactions, type CreateOutcome, type IdGenerator, type NewJob } from "../ports/index.ts"
import { type AcceptedJob, acceptedOf, type CreateJobError, type JobOutcomes } from "./createJob.ts"
import { type Fingerprint, type JobRequest, makePrepareJob, readDraft, traceIn } from "./prepareJob.ts"

/** The operations that accept jobs in a transaction of the caller: the jobs exist exactly if it commits. */
export interface CreateJobsIn {
  /**
   * `createJob` inside a transaction of the caller: the job exists exactly if that commits, and workers are woken then. The
   * store's adapter defines which handles are transactions; any other handle, and a store without them, is a defect.
   */
  readonly createJobIn: (transaction: unknown, asked: JobRequest) => Effect.Effect<AcceptedJob, CreateJobError>
  /** `createJobs` inside a transaction of the caller. Fails as a whole when the store fails. */
  readonly createJobsIn: (
    transaction: unknown,
    asked: ReadonlyArray<JobRequest>,
  ) => Effect.Effect<JobOutcomes, StoreUnavailable>
  /** `createJobIn` for synchronous handles. Throws what `createJobIn` fails with. It has no span; `trace` is stored with the job. */
  readonly createJobInSync: (transaction: unknown, asked: JobRequest, trace?: JobTrace) => AcceptedJob
  /** `createJobsIn` for synchronous handles. Throws what `createJobsIn` fails with. */
  readonly createJobsInSync: (transaction: unknown, asked: ReadonlyArray<JobRequest>, trace?: JobTrace) => JobOutcomes
}

/** Maximum number of jobs in one call of the store. Nobody else waits for the call, so it is larger than a shared batch. */
const maxCallSize = 1_000

/** The valid jobs of a list, in pieces that one call of a store may hold, and what puts all outcomes in the list's order. */
interface Prepared {
  readonly batches: ReadonlyArray<ReadonlyArray<NewJob>>
  readonly outcomesOf: (created: ReadonlyArray<CreateOutcome>) => JobOutcomes
}

const only = ([outcome]: JobOutcomes): JobOutcomes[number] => {
  if (outcome === undefined) throw new TypeError("createJobs returned no outcome for a job")
  return outcome
}

export const makeCreateJobsIn: Effect.Effect<CreateJobsIn, never, IdGenerator | Fingerprint> = Effect.gen(function* () {
  const transactions = Option.getOrUndefined(yield* Effect.serviceOption(CallerTransactions))
  const prepare = yield* makePrepareJob

  const prepareAll = (asked: ReadonlyArray<JobRequest>, trace?: JobTrace): Prepared => {
    const jobs = asked.map((each) => {
      // The transaction of the other job may have ended, and that job begun, before this one commits.
      if (each.placement?.unique?.onDuplicate !== undefined)
        throw new TypeError(
          "unique.onDuplicate does not work in a transaction: leave it out, or submit after the commit",
        )
      return Result.map(readDraft(each), (draft) => prepare(draft, trace))
    })
    const valid = jobs.filter(Result.isSuccess).map(({ success }) => success)
    return {
      batches: Array.from({ length: Math.ceil(valid.length / maxCallSize) }, (_, n) =>
        valid.slice(n * maxCallSize, (n + 1) * maxCallSize),
      ),
      outcomesOf: (created) => {
        let next = 0
        return jobs.map((job) => (Result.isFailure(job) ? Result.fail(job.failure) : acceptedOf(created[next++])))
      },
    }
  }
  const createJobsIn: CreateJobsIn["createJobsIn"] = (transaction, asked) =>
    Effect.withFiber((fiber) => {
      if (transactions === undefined)
        throw new TypeError(
          "this store does not accept callers' transactions: use sqliteStore() or postgresStore(), or leave out transaction",
        )
      const { batches, outcomesOf } = prepareAll(asked, traceIn(fiber))
      const created = Effect.forEach(batches, (batch) => transactions.createJobs(transaction, batch))
      return Effect.map(created, (outcomes) => outcomesOf(outcomes.flat()))
    })
  const createJobsInSync: CreateJobsIn["createJobsInSync"] = (transaction, asked, trace) => {
    const synchronous = transactions?.synchronous
    if (synchronous === undefined)
      throw new TypeError("this store does not accept synchronous transactions of callers: use sqliteStore()")
    const { batches, outcomesOf } = prepareAll(asked, trace)
    return outcomesOf(batches.flatMap((batch) => synchronous.createJobs(transaction, batch)))
  }
  return {
    createJobIn: (transaction, asked) =>
      Effect.flatMap(createJobsIn(transaction, [asked]), (outcomes) => Effect.fromResult(only(outcomes))),
    createJobsIn,
    createJobInSync: (transaction, asked, trace) =>
      Result.getOrThrow(only(createJobsInSync(transaction, [asked], trace))),
    createJobsInSync,
  }
})

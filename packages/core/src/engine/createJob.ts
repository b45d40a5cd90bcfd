import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { InvalidRequest } from "../domain/Errors.ts"
import type { StoreUnavailable } from "../domain/index.ts"
import type { JobTrace } from "../domain/JobTrace.ts"
import { type CreateOutcome, type IdGenerator, JobStore, type NewJob, WakeUp } from "../ports/index.ts"
import { type AcceptedJob, acceptedOf, type CreateJobError, type SettleJob } from "./acceptedOf.ts"
import { JobList, type JobOutcomes } from "./createJobs.ts"
import type { Fingerprint } from "./Fingerprint.ts"
import { GroupCommit } from "./GroupCommit.ts"
import { makeCheckPrerequisites } from "./prerequisites.ts"
import { JobReader } from "./waitForJob.ts"
import { type Draft, type JobRequest, makePrepareJob, readDraft, traceIn } from "./prepareJob.ts"

const hasPrerequisites = ({ placement }: JobRequest): boolean => placement?.submitted?.after !== undefined

const unread = (): never => {
  throw new TypeError("a request was not read")
}

/** The ways to have jobs accepted outside a transaction of the caller. */
export interface CreateJobs {
  /**
   * Accepts a job, exactly once per key record and idempotency key. When it returns, the job survives any crash. Fields are
   * checked here; everything after them, in the order replay, live prerequisites, upload, queue cap, in one step of the store.
   */
  readonly createJob: (asked: JobRequest) => Effect.Effect<AcceptedJob, CreateJobError>
  /** `createJob` for the tick of a schedule, which `placement` names. Returns the store's outcome, for `acceptedOf`. */
  readonly createTickJob: (
    asked: JobRequest,
  ) => Effect.Effect<CreateOutcome | undefined, InvalidRequest | StoreUnavailable>
  /**
   * Accepts a list of jobs, in order, each with its own outcome. All requests are read before the first job is stored. The jobs
   * share store calls of up to 500 with each other and with other callers. A store that fails is an outcome of the jobs it
   * affects; those can be repeated with their idempotency keys. An interrupted call stores no further jobs of its list.
   */
  readonly createJobs: (asked: ReadonlyArray<JobRequest>) => Effect.Effect<JobOutcomes>
  /**
   * `createJob` without a fiber, for callers with promises: calls `settle` once, with an outcome for `acceptedOf`. Throws
   * `InvalidRequest`, and the defects of `createJob`, and for a job with prerequisites, which it cannot check. It has no span.
   */
  readonly pushJob: (asked: JobRequest, settle: SettleJob) => void
}

export const makeCreateJobs: Effect.Effect<
  CreateJobs,
  never,
  JobStore | JobReader | GroupCommit | IdGenerator | Fingerprint | WakeUp
> = Effect.gen(function* () {
  const store = yield* JobStore
  const checkPrerequisites = makeCheckPrerequisites(store, yield* JobReader)
  const grouped = yield* GroupCommit
  const prepare = yield* makePrepareJob
  const afterDuplicate = yield* makeAfterDuplicate
  const fork = Effect.runForkWith(yield* Effect.context())
  const pushIn = (trace: JobTrace | undefined) => (draft: Draft, settle: SettleJob) => {
    const job = prepare(draft, trace)
    grouped.createJobs.push([job], (exit) => {
      const outcome = Exit.map(exit, ([first]) => first)
      if (Exit.isFailure(outcome) || !asksForMore(draft, outcome.value)) return settle(outcome)
      fork(afterDuplicate(draft, job, outcome.value)).addObserver(settle)
    })
  }
  const push = pushIn(undefined)
  const create = (asked: JobRequest) =>
    Effect.withFiber((fiber): ReturnType<CreateJobs["createTickJob"]> => {
      const draft = readDraft(asked)
      if (Result.isFailure(draft)) return Effect.fail(draft.failure)
      // Uninterruptible: a caller that is interrupted learns of it once its job is stored.
      return Effect.uninterruptible(
        Effect.suspend(() => {
          const job = prepare(draft.success, traceIn(fiber))
          return Effect.flatMap(store.createJobs([job]), ([outcome]) =>
            asksForMore(draft.success, outcome) ? afterDuplicate(draft.success, job, outcome) : Effect.succeed(outcome),
          )
        }),
      )
    })
  return {
    createJob: (asked) => {
      const created = Effect.flatMap(create(asked), (outcome) => Effect.fromResult(acceptedOf(outcome)))
      return hasPrerequisites(asked) ? Effect.andThen(checkPrerequisites(asked), created) : created
    },
    createTickJob: create,
    createJobs: (asked) =>
      Effect.withFiber((fiber) => {
        const createAll = (drafts: ReadonlyArray<Result.Result<Draft, CreateJobError>>) =>
          Effect.callback<JobOutcomes>((resume) => {
            const list = new JobList(drafts, pushIn(traceIn(fiber)), resume)
            list.pushMore()
            return Effect.sync(() => list.stop())
          })
        const drafts = asked.map(readDraft)
        if (!asked.some(hasPrerequisites)) return createAll(drafts)
        const checked = Effect.forEach(
          asked,
          (each, index) =>
            Effect.map(Effect.result(checkPrerequisites(each)), (check) =>
              Result.flatMap(drafts[index] ?? unread(), (draft) => Result.map(check, () => draft)),
            ),
          // Those of several jobs are read together.
          { concurrency: 100 },
        )
        return Effect.flatMap(checked, createAll)
      }),
    pushJob: (asked, settle) => {
      if (hasPrerequisites(asked)) throw new TypeError("pushJob does not check prerequisites: use createJob")
      push(Result.getOrThrow(readDraft(asked)), settle)
    },
  }
})

/** Whether the outcome is that of a job that waits, with which more is to be done. A store replaces its request by itself. */
const asksForMore = ({ placement }: Draft, outcome: CreateOutcome | undefined): boolean =>
  placement.unique?.onDuplicate === "extend" && outcome?._tag === "Duplicate"

/**
 * Begins the delay of the job that has the scope again, as `unique.onDuplicate` asks for, as long as it waits for its first attempt. Once that has begun,
 * the scope is free, and the job is submitted again: it may find another one in its place.
 */
const makeAfterDuplicate = Effect.gen(function* () {
  const store = yield* JobStore
  const wakeUp = yield* WakeUp
  return Effect.fnUntraced(function* (draft: Draft, job: NewJob, first: CreateOutcome | undefined) {
    let outcome = first
    while (asksForMore(draft, outcome) && outcome?._tag === "Duplicate") {
      const jobId = outcome.job.id
      const [changed] = yield* store.rescheduleJobs([{ jobId, delayMs: job.delayMs, queuedOnly: true }])
      if (changed === "Ready") return outcome
      if (changed === "Rescheduled") {
        // The new time may be sooner.
        yield* wakeUp.notify
        return outcome
      }
      ;[outcome] = yield* store.createJobs([job])
    }
    return outcome
  })
})

import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { JobTrace } from "../domain/index.ts"
import { type IdGenerator, JobStore } from "../ports/index.ts"
import { type Accepted, acceptedOf, type CreateJobError, type SettleJob } from "./acceptedOf.ts"
import { JobList, type JobOutcomes } from "./createJobs.ts"
import type { Fingerprint } from "./Fingerprint.ts"
import { GroupCommit } from "./GroupCommit.ts"
import { type Asked, type Draft, makePrepareJob, readDraft, traceIn } from "./prepareJob.ts"

/** The ways to have jobs accepted outside a transaction of the caller. */
interface CreateJobs {
  /**
   * Accepts a job, exactly once per key record and idempotency key. When it returns, the job survives any crash. Fields are
   * checked here; everything after them, in the order replay, live prerequisites, upload, queue cap, in one step of the store.
   */
  readonly createJob: (asked: Asked) => Effect.Effect<Accepted, CreateJobError>
  /** `createJob` for a list: see `Engine.createJobs`. */
  readonly createJobs: (asked: ReadonlyArray<Asked>) => Effect.Effect<JobOutcomes>
  /** `createJob` without a fiber: see `Engine.pushJob`. */
  readonly pushJob: (asked: Asked, settle: SettleJob) => void
}

export const makeCreateJobs: Effect.Effect<CreateJobs, never, JobStore | GroupCommit | IdGenerator | Fingerprint> =
  Effect.gen(function* () {
    const store = yield* JobStore
    const grouped = yield* GroupCommit
    const prepare = yield* makePrepareJob
    const pushIn = (trace: JobTrace | undefined) => (draft: Draft, settle: SettleJob) =>
      grouped.createJobs.push([prepare(draft, trace)], (exit) => settle(Exit.map(exit, ([outcome]) => outcome)))
    const push = pushIn(undefined)
    return {
      createJob: (asked) =>
        Effect.withFiber((fiber): Effect.Effect<Accepted, CreateJobError> => {
          const draft = readDraft(asked)
          if (Result.isFailure(draft)) return Effect.fail(draft.failure)
          // Uninterruptible: a caller that is interrupted learns of it once its job is stored.
          return Effect.uninterruptible(
            Effect.flatMap(store.createJobs([prepare(draft.success, traceIn(fiber))]), ([outcome]) =>
              Effect.fromResult(acceptedOf(outcome)),
            ),
          )
        }),
      createJobs: (asked) =>
        Effect.withFiber((fiber) => {
          const drafts = asked.map(readDraft)
          return Effect.callback<JobOutcomes>((resume) => {
            const list = new JobList(drafts, pushIn(traceIn(fiber)), resume)
            list.pushMore()
            return Effect.sync(() => list.stop())
          })
        }),
      pushJob: (asked, settle) => push(Result.getOrThrow(readDraft(asked)), settle),
    }
  })

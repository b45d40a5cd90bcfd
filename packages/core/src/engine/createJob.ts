import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { type Grant, type Job } from "../domain/index.ts"
import {
  IdempotencyKeyReused,
  JobNotRetryable,
  LiveNotActive,
  QueueFull,
  UploadAlreadyUsed,
  UploadExpired,
  UploadNotFound,
  UploadNotReady,
} from "../domain/Errors.ts"
import type { UploadRefusal } from "../domain/Upload.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { type CreateOutcome, JobStore, WakeUp } from "../ports/index.ts"
import { JobEvents, refOf } from "./JobEvents.ts"
import { type Placement, prepareJob, readDraft } from "./prepareJob.ts"

/** An accepted job: a new one, or the one this idempotency key already made. */
export interface Accepted {
  readonly job: Job
  readonly replayed: boolean
}

const uploadRefused: Record<UploadRefusal, () => UploadNotFound | UploadNotReady | UploadAlreadyUsed | UploadExpired> =
  {
    not_found: () => new UploadNotFound(),
    not_ready: () => new UploadNotReady(),
    already_used: () => new UploadAlreadyUsed(),
    expired: () => new UploadExpired(),
  }

/** Why a store did not accept a job. */
export type Refused =
  | IdempotencyKeyReused
  | JobNotRetryable
  | LiveNotActive
  | UploadNotFound
  | UploadNotReady
  | UploadAlreadyUsed
  | UploadExpired
  | QueueFull

/** What became of the only item of a store's verb. */
export const acceptedOf = (outcome: CreateOutcome | undefined): Result.Result<Accepted, Refused> => {
  switch (outcome?._tag) {
    case "Created":
      return Result.succeed({ job: outcome.job, replayed: false })
    case "Replayed":
      return Result.succeed({ job: outcome.job, replayed: true })
    case "KeyReused":
      return Result.fail(new IdempotencyKeyReused())
    case "NotRetryable":
      return Result.fail(new JobNotRetryable())
    case "GateClosed":
      return Result.fail(new LiveNotActive({ missing: outcome.missing }))
    case "UploadRefused":
      return Result.fail(uploadRefused[outcome.reason]())
    case "QueueFull":
      return Result.fail(new QueueFull())
    case undefined:
      throw new TypeError("the store answered none of the jobs it was given")
  }
}

/** Tells workers and listeners of a job that is there now. */
export const announce = Effect.fnUntraced(function* ({ job, replayed }: Accepted) {
  if (replayed) return
  const wakeUp = yield* WakeUp
  const events = yield* JobEvents
  yield* wakeUp.notify
  events.emit({ type: "queued", ...refOf(job) })
})

/**
 * Accepts a job, exactly once per key record and idempotency key. When it returns, the job
 * survives any crash. Fields are checked here; everything after them, in the order replay, live
 * prerequisites, upload, queue cap, in one step of the store.
 */
export const createJob = Effect.fnUntraced(function* (
  grant: Grant,
  kind: JobKind,
  input: unknown,
  idempotencyKey: string,
  placement?: Placement,
) {
  const store = yield* JobStore
  const draft = yield* Effect.fromResult(readDraft(grant, kind, input, idempotencyKey, placement))
  const job = yield* prepareJob(draft)
  const creating = Effect.gen(function* () {
    const [outcome] = yield* store.createJobs([job])
    const accepted = yield* Effect.fromResult(acceptedOf(outcome)).pipe(
      // Nobody asked to retry anything.
      Effect.catchTag("JobNotRetryable", Effect.die),
    )
    yield* announce(accepted)
    return accepted
  })
  // Whoever goes away meanwhile leaves a job that workers are told of.
  return yield* Effect.uninterruptible(creating)
})

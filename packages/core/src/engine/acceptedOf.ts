import type * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { Job } from "../domain/index.ts"
import {
  IdempotencyKeyReused,
  type InvalidRequest,
  LiveNotActive,
  type PrerequisiteNotFound,
  QueueFull,
  SpendCapReached,
  type StorageFull,
  UploadAlreadyUsed,
  UploadExpired,
  UploadNotFound,
  UploadNotReady,
} from "../domain/Errors.ts"
import { storageFull } from "./storageFull.ts"
import type { StoreUnavailable } from "../domain/PortErrors.ts"
import type { UploadRefusal } from "../domain/Upload.ts"
import type { CreateOutcome } from "../ports/index.ts"

/** An accepted job: a new one, the one this idempotency key already made, or the one that has the scope of `unique`. */
export interface AcceptedJob {
  readonly job: Job
  readonly replayed: boolean
  readonly deduplicated?: boolean
}

/** Why a store did not accept a job, in order of precedence. */
export type Refused =
  | IdempotencyKeyReused
  | LiveNotActive
  | UploadNotFound
  | UploadNotReady
  | UploadAlreadyUsed
  | UploadExpired
  | SpendCapReached
  | StorageFull
  | QueueFull

/** Why a job was not accepted, in order of precedence. */
export type CreateJobError = InvalidRequest | PrerequisiteNotFound | Refused | StoreUnavailable

const uploadRefused: Record<UploadRefusal, () => UploadNotFound | UploadNotReady | UploadAlreadyUsed | UploadExpired> =
  {
    not_found: () => new UploadNotFound(),
    not_ready: () => new UploadNotReady(),
    already_used: () => new UploadAlreadyUsed(),
    expired: () => new UploadExpired(),
  }

/** Returns the accepted job, or why the store refused it. Throws `TypeError` for an outcome that only a retry or the job of a tick can have. */
export const acceptedOf = (outcome: CreateOutcome | undefined): Result.Result<AcceptedJob, Refused> => {
  switch (outcome?._tag) {
    case "Created":
      return Result.succeed({ job: outcome.job, replayed: false })
    case "Replayed":
      return Result.succeed({ job: outcome.job, replayed: true })
    case "Duplicate":
    case "Replaced":
      return Result.succeed({ job: outcome.job, replayed: false, deduplicated: true })
    case "KeyReused":
      return Result.fail(new IdempotencyKeyReused({ jobId: outcome.job.id, kind: outcome.job.kind }))
    case "GateClosed":
      return Result.fail(new LiveNotActive({ missing: outcome.missing }))
    case "UploadRefused":
      return Result.fail(uploadRefused[outcome.reason]())
    case "SpendCapReached":
      return Result.fail(new SpendCapReached(outcome.refusal))
    case "StorageFull":
      return Result.fail(storageFull(outcome.capBytes, outcome.kept))
    case "QueueFull":
      return Result.fail(new QueueFull(outcome))
    case "NotRetryable":
    case "TickTaken":
    case undefined:
      throw new TypeError(`createJobs returned ${outcome === undefined ? "no outcome" : outcome._tag} for a new job`)
  }
}

/** Receives the outcome of one job, or the failure of the store. */
export type SettleJob = (exit: Exit.Exit<CreateOutcome | undefined, StoreUnavailable>) => void

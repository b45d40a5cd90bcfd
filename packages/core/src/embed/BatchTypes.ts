import type { JobMode } from "../domain/Access.ts"
import type { BuiltInErrorCode } from "../domain/ErrorCode.ts"
import type { JsonObject } from "../domain/Json.ts"
import type { AnyOutput, Attempt, AttemptOutcome, FailureOptions } from "./AttemptTypes.ts"

/**
 * A job of a batch. It has no steps, files, waits and providers: a job that must wait would hold up the others. Its outcome is
 * one of the list that `run` returns.
 */
export interface BatchJob<Request = unknown> extends Pick<
  Attempt<Request>,
  "request" | "kindVersion" | "jobId" | "tags" | "metadata" | "after" | "schedule" | "attempt" | "failures" | "progress"
> {
  /**
   * Aborted when this job leaves the batch: it was canceled or taken over, it took too long, or the worker stops. Its outcome is ignored
   * then, and the other jobs go on.
   */
  readonly signal: AbortSignal
}

/** The argument of `run` of a kind with `batch`. */
export interface JobBatch<Request = unknown, Code extends string = string> {
  /** At least one and at most `batch.size` jobs, of one project. */
  readonly jobs: ReadonlyArray<BatchJob<Request>>
  readonly mode: JobMode
  /** Aborted when all jobs have left the batch. Give it to `fetch`. */
  readonly signal: AbortSignal
  /**
   * Creates the error of a job with a built-in error code or one that the kind declares in `errorCodes`. Return it as the outcome of
   * one job, or throw it to fail all.
   */
  readonly failure: (code: BuiltInErrorCode | Code, options?: FailureOptions) => Error
}

/** The outcome of one job of a batch: its result, or the error that its attempt fails with. */
export type BatchOutcome<Output = AnyOutput, MeterName extends string = string> =
  | AttemptOutcome<Output, MeterName>
  | Error

/** The `run` of any kind with batches. */
export type AsyncBatchRun = (batch: JobBatch) => Promise<ReadonlyArray<BatchOutcome<JsonObject>>>

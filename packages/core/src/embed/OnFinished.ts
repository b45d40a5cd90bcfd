import type { ErrorCode } from "../domain/ErrorCode.ts"
import type { DoneJob, FailedJob } from "./JobResult.ts"

/** A job that has ended: done, or failed for whatever reason. */
export type FinishedJob<Name extends string = string, Output = unknown, Code extends string = ErrorCode> =
  | DoneJob<Name, Output>
  | FailedJob<Name, Code>

/** The argument of `onFinished`. */
export interface Finished<Job = FinishedJob> {
  /** The job as `get` returns it. Its output is `null` if its data was erased before the call. */
  readonly job: Job
  /** 1-based. */
  readonly attempt: number
  /** Aborted after 45 s, and when the engine stops. Give it to `fetch`. */
  readonly signal: AbortSignal
}

/**
 * Acts on the end of a job. Called at least once for each job that ends, however it ends, by any process with a worker that has the
 * kind, also after a crash; never by two at once, unless a call outlives its lease of 60 s. A call that throws or takes longer than
 * 45 s is repeated after 5 s, 20 s, 80 s and so on, up to 6 h, ten times in all.
 */
export type OnFinished<Job = FinishedJob> = (finished: Finished<Job>) => unknown

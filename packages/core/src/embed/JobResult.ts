import type { JobMode } from "../domain/Access.ts"
import type { ErrorCode, WarningCode } from "../domain/ErrorCode.ts"
import type { JsonObject } from "../domain/givenValues.ts"
import type { JobId } from "../domain/Ids.ts"
import type { Billing } from "../domain/Job.ts"
import type { Priority } from "../domain/Priority.ts"
import type { Progress } from "../domain/Progress.ts"
import type { ErrorCodeOf, Kind, OutputOf, TypesOf } from "../kinds/KindDefinition.ts"

/** Fields of every job. Times are `Date`s by the store's clock. */
export interface JobFields<Name extends string = string> {
  readonly id: JobId
  readonly kind: Name
  /**
   * The version of the kind that accepted the job. The output is as the code left it that ran the job, of this version or a newer one:
   * it has the type of the present `output` only if all versions since share that. Schemas are not applied again when a job is read.
   */
  readonly kindVersion: number
  readonly priority: Priority
  readonly createdAt: Date
  readonly warningCode: WarningCode | null
  /** The fields of the request that its kind lists in `metadata`, and the metadata of the submission. They stay when its data is erased. */
  readonly metadata: JsonObject
  /** The tags of the submission. */
  readonly tags: ReadonlyArray<string>
  /** Number of attempts started so far. */
  readonly attempts: number
}

/** Fields of the jobs of a kind with providers, switches, a price or meters: all others run the same in both modes, and are free. */
export interface ModeFields {
  readonly mode: JobMode
  /** The charge; pending while a live job is unfinished. */
  readonly billing: Billing
}

/** `ModeFields` for kinds that have them. Of a kind whose name is unknown, they may be missing. */
export type ModeFieldsOf<K extends Kind> = string extends K["name"]
  ? Partial<ModeFields>
  : [TypesOf<K>["needs"]["all" | "or"] | Declared<TypesOf<K>["switch"]> | Declared<TypesOf<K>["meter"]>] extends [never]
    ? unknown
    : ModeFields
type Declared<Names> = Exclude<Names, undefined>

export interface UnfinishedJob<Name extends string = string> extends JobFields<Name> {
  readonly status: "queued" | "processing"
  /** The report of the latest attempt; `null` without one. */
  readonly progress: Progress | null
}

export interface DoneJob<Name extends string = string, Output = unknown> extends JobFields<Name> {
  readonly status: "done"
  readonly finishedAt: Date
  /** `null` once its data was erased or has expired. */
  readonly output: Output | null
}

export interface FailedJob<Name extends string = string, Code extends string = ErrorCode> extends JobFields<Name> {
  readonly status: "failed"
  readonly finishedAt: Date
  readonly errorCode: Code
  /** The kind's message for the caller (`publicMessage` of `failure`); `null` without one, and once the job's data is erased. */
  readonly errorMessage: string | null
  /** Only from `get`, for a job that was retried (`operator.retry`): the newest retry. */
  readonly retriedAs?: JobId
}

/** A job. Its type is narrowed by `status`. */
export type JobResult<K extends Kind = Kind> = K extends Kind
  ? (UnfinishedJob<K["name"]> | DoneJob<K["name"], OutputOf<K>> | FailedJob<K["name"], ErrorCodeOf<K>>) &
      ModeFieldsOf<K>
  : never

/**
 * A job or its id, also as `JSON.parse` gives it. With a job returned by `submit`, the kind is known, and so is the type of its
 * output.
 */
export type JobReference<Name extends string> =
  | string
  | { readonly id: string; readonly kind: Name }
  | { readonly id: string }

/** A file or its id, also as `JSON.parse` gives it. */
export type FileReference = string | { readonly id: string }

/** A job that has ended: done, or failed for whatever reason. */
export type FinishedJob<Name extends string = string, Output = unknown, Code extends string = ErrorCode> =
  | DoneJob<Name, Output>
  | FailedJob<Name, Code>

/** The argument of `onFinished`. */
export interface Finished<Job = FinishedJob> {
  /** The job as `get` returns it. Its output is `null` if its data was erased before the call. */
  readonly job: Job
  /** The request of a failed job whose kind has `requestOnFailure: true`, while the job's data is kept; otherwise left out. */
  readonly request?: JsonObject
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

/** A job as `submit` returns it. `deduplicated`: the job of an earlier submission, because of `unique`. */
export type SubmittedJob<K extends Kind = Kind> = JobResult<K> & { readonly deduplicated?: true }

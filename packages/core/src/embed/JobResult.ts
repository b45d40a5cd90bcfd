import type { JobMode } from "../domain/Access.ts"
import type { ErrorCode, WarningCode } from "../domain/ErrorCode.ts"
import type { JobId } from "../domain/Ids.ts"
import { billingOf, errorMessageOf, type Job as StoredJob, progressOf, submittedOf } from "../domain/index.ts"
import type { Billing } from "../domain/Job.ts"
import { callerMetadata } from "../domain/JobMetadata.ts"
import type { Priority } from "../domain/Priority.ts"
import type { JsonObject } from "../domain/givenValues.ts"
import { fieldOf } from "../providers/ProviderError.ts"
import type { Progress } from "../domain/Progress.ts"
import type { Engine } from "../engine/index.ts"
import type { JobKind } from "../kinds/index.ts"
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

const idIn = (thing: unknown, expected: string): string => {
  const id: unknown = typeof thing === "string" ? thing : fieldOf(thing, "id")
  if (typeof id === "string") return id
  const given = thing === null ? "null" : typeof thing === "object" ? "an object without id" : typeof thing
  const isPromise = typeof fieldOf(thing, "then") === "function"
  throw new TypeError(`expected ${expected}, not ${isPromise ? "a promise: await it" : given}`)
}

/** Returns the id of a job. Throws `TypeError` for anything else. */
export const idOf = (job: JobReference<string>): string => idIn(job, "a job or the id of a job")

/** Returns the id of a file. Throws `TypeError` for anything else. */
export const fileIdOf = (file: FileReference): string => {
  const id = idIn(file, "a file, such as job.output.audio, or the id of a file")
  if (id.startsWith("job_")) throw new TypeError("expected a file, such as job.output.audio, not the job itself")
  return id
}

/** Returns the id of an upload. Throws `TypeError` for anything else. */
export const uploadIdOf = (upload: string | { readonly id: string }): string =>
  idIn(upload, "an upload of createUpload() or the id of an upload")

/** Converts a job, with its output and files under their names. */
export const toJobResult = <K extends Kind>(
  job: StoredJob,
  { kinds, settings }: Pick<Engine["Service"], "kinds" | "settings">,
  progress: Progress | null = progressOf(job),
): JobResult<K> => {
  const { attempts, createdAt, id, kind, kindVersion, mode, priority, status, warningCode } = job
  const known = kinds.find(({ name }) => name === kind)
  const common = {
    id,
    kind,
    kindVersion,
    ...((known === undefined || differsByMode(known)) && { mode, billing: billingOf(job, settings.defaultCurrency) }),
    priority,
    metadata: callerMetadata(job),
    tags: submittedOf(job).tags ?? [],
    attempts,
    status,
    warningCode,
    createdAt: dateOf(createdAt),
  }
  // The store's rows are untyped by kind; which kind a job has is what its caller submitted.
  return { ...common, ...statusFieldsOf(job, progress) } as JobResult<K>
}

const statusFieldsOf = (job: StoredJob, progress: Progress | null): object => {
  switch (job.status) {
    case "queued":
      return { progress: null }
    case "processing":
      return { progress: progress && { value: progress.value, message: progress.message } }
    case "done":
      return { finishedAt: dateOf(job.finishedAt ?? 0), output: outputOf(job) }
    case "failed":
      return {
        finishedAt: dateOf(job.finishedAt ?? 0),
        errorCode: job.errorCode,
        errorMessage: errorMessageOf(job),
      }
  }
}

const outputOf = ({ files, output }: StoredJob): object | null =>
  output && {
    ...output,
    ...Object.fromEntries(
      files.map(({ bytes, id, mediaType, name, sha256 }) => [name, { id, mediaType, bytes, sha256 }]),
    ),
  }

/** A day of store time, which is not this process's clock: only written differently. */
const dateOf = (unixMs: number): Date => new Date(unixMs)

/** Whether `ModeFieldsOf` gives jobs of a kind their mode and charge. */
const differsByMode = ({ gate, ports }: JobKind): boolean =>
  ports.length > 0 || gate.switches.length > 0 || gate.meters.length > 0 || gate.price !== null

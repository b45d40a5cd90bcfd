import type { JobMode } from "../domain/Access.ts"
import type { BuiltInErrorCode, WarningCode } from "../domain/ErrorCode.ts"
import type { JobId } from "../domain/Ids.ts"
import type { MetadataValue } from "../domain/JobMetadata.ts"
import type { Json, JsonObject } from "../domain/givenValues.ts"
import type { SignalResult, WaitTime } from "../domain/WaitTime.ts"
import type { JsonCheck } from "../kinds/JsonTypes.ts"
import type { ErrorCodeOf, InputOf, Kind, OutputOf, UsageBy } from "../kinds/KindDefinition.ts"
import type { ValueOf, ValueSchema } from "../kinds/StandardSchema.ts"
import type { AnswerOf, NameOf, ProviderName, ProviderRef } from "../providers/builtInPorts.ts"
import type { AudioDetails } from "../providers/transcription.ts"
import type { AsyncAudio, AsyncFile, AsyncRequest } from "./AsyncProviders.ts"
import type { SentSignal, SubmitOptions } from "./EmbeddedEngine.ts"
import type { FileReference, JobReference, JobResult } from "./JobResult.ts"

/** The uploaded file of a job, measured. */
export interface AttemptAudio extends AsyncAudio {
  /** The duration that the caller declared, in seconds. */
  readonly declaredSeconds: number
}

/** The uploaded file of a job, measured and not read yet. */
export interface AttemptUpload extends AudioDetails {
  /** The duration that the caller declared, in seconds. */
  readonly declaredSeconds: number
  /**
   * Reads the file from its beginning, each time it is called; leaving the loop closes it. Length and SHA-256 are compared with those
   * of the upload before the last piece: a damaged file rejects, and the job fails.
   */
  readonly stream: () => AsyncIterable<Uint8Array>
}

/** Options of a job that an attempt submits. */
export type FollowUpOptions = Pick<SubmitOptions, "priority" | "delayMs" | "tags" | "metadata">

/** The engine in `run`, for jobs of the project and mode of the running job. Kinds and engines need not import each other for it. */
export interface AttemptEngine {
  /**
   * Submits a job of a kind of this engine, and resolves with its id without waiting for it. However often the attempt is repeated, also
   * after a kill, there is one job for each step: `engine.submit("mail", mail, { to })`. The name is one of the steps' names, and the
   * request must be the same in each attempt. The job counts against no queue cap, has the priority of this one by default, and runs
   * whatever happens to this one. While a switch or a price of the kind is missing, this job waits.
   */
  readonly submit: <K extends Kind>(
    step: string,
    kind: K | K["name"],
    request: InputOf<K>,
    options?: FollowUpOptions,
  ) => Promise<{ readonly id: JobId; readonly kind: K["name"] }>
  /**
   * Submits a job together with the result of this one: both are committed in one transaction, so it exists exactly if this job is done. If
   * the attempt fails, is killed or canceled, or loses its lease, nothing of it exists. Resolves with the id that it will have, which is
   * the same in each attempt and may be part of the output. Takes the arguments of `submit`, whose step names it shares, and counts only
   * in the attempt that succeeds.
   *
   * The request is checked now. The result of this job is never lost for the sake of the other one: if that needs a price that is missing
   * when this job ends, or would pass a spend cap, it exists as failed, with `errorCode: "not_accepted"`, and `operator.retry` submits it
   * again. While a switch is off, it waits in the queue. At most 100 for each job; a kind with an upload cannot be submitted so.
   */
  readonly submitWith: AttemptEngine["submit"]
  /**
   * Reads a job as it is now, also one that a caller has submitted. Rejects with `JobNotFound` for a job of another project or mode, and
   * for one that is not of `kind`, which types the output.
   */
  readonly get: <K extends Kind = Kind>(job: JobReference<string>, kind?: K | K["name"]) => Promise<JobResult<K>>
  /** Reads a file of a job into memory, such as that of a child. Rejects with `FileGone` once its data was erased. */
  readonly readFile: (file: FileReference) => Promise<Uint8Array>
  /** The same file as a stream. */
  readonly streamFile: (file: FileReference) => AsyncIterable<Uint8Array>
  /** Sends a signal to a job. Repeating it has no effect. */
  readonly signal: <Value = undefined>(
    job: JobReference<string>,
    name: string,
    value?: JsonCheck<Value, "value"> & Value,
  ) => Promise<SentSignal>
  /** Fails an unfinished job with `canceled_by_operator`. Repeating it has no effect. Rejects with `JobFinished` if it has ended otherwise. */
  readonly cancel: (job: JobReference<string>) => Promise<void>
}

/** The tick of a schedule, by the store's clock. */
export interface AttemptTick {
  /** The schedule's name. */
  readonly name: string
  /** When the schedule ticked, or, for a job of `runNow`, when that was called. */
  readonly tickAt: Date
  /**
   * The last tick before that got a job; `null` for the first. From one tick to the next, the times from `previousAt` to `tickAt` have
   * no gap: not after a skipped tick either.
   */
  readonly previousAt: Date | null
}

/** The argument of `run`. */
export interface Attempt<
  Request = unknown,
  Provider extends ProviderRef = ProviderName,
  File extends string = string,
  Code extends string = string,
  Chunk = never,
> {
  readonly request: Request
  /** The version of the kind that accepted the request. */
  readonly kindVersion: number
  readonly mode: JobMode
  readonly jobId: JobId
  /** The tags of the submission. */
  readonly tags: ReadonlyArray<string>
  /** The metadata of the submission, without the fields of the request that the kind keeps. */
  readonly metadata: Readonly<Record<string, MetadataValue>>
  /**
   * The jobs of the option `after`, in its order, all finished: `[]` without one. A failed one is among them only with
   * `onPrerequisiteFailure: "run"`. The retry of a failed one takes its place.
   */
  readonly after: ReadonlyArray<ChildJob>
  /** The tick that the job is for, if a schedule submitted it. */
  readonly schedule: AttemptTick | undefined
  /** 1-based. */
  readonly attempt: number
  /** Attempts that have failed before this one. */
  readonly failures: number
  /**
   * Aborted when the attempt cannot go on: the job was canceled, taken over or must wait, the attempt took too long, or the worker stops.
   * Give it to `fetch`, and release local resources in its listeners: from then on the functions below never settle.
   */
  readonly signal: AbortSignal
  /** The providers of the job's mode. Calls stay within the provider's limits, and answers are checked. */
  readonly ask: {
    readonly [Each in Provider as NameOf<Each>]: (request: AsyncRequest<Each>) => Promise<AnswerOf<Each>>
  }
  /** Returns whether a provider is available, for kinds that more than one set of providers can serve. */
  readonly has: (provider: ProviderName | NameOf<Provider>) => boolean
  /** Reads the upload of this job into memory, measured and within limits. Fails the job if the kind has no upload. */
  readonly audio: () => Promise<AttemptAudio>
  /** The same upload as a stream. */
  readonly upload: () => Promise<AttemptUpload>
  /**
   * Creates the error to throw when the attempt fails with a built-in error code or one that the kind declares in `errorCodes`:
   * `throw failure("quota_used_up", { message: "402 from the account service" })`. An error that neither `run` nor a step throws fails the
   * job as a bug of the kind. Code that has no attempt imports `failure`.
   */
  readonly failure: (code: BuiltInErrorCode | Code, options?: FailureOptions) => Error
  /**
   * Runs a named step, after checking the operator's switches and that this attempt still holds the job. Its value is kept, so a
   * later attempt gets it without running the step again. Put work that costs money or must not happen twice into a step.
   *
   * A step that is in progress when its attempt ends is aborted and runs again: after a crash, a timeout or a stop of the worker, when the
   * job waits, and when `run` fails, such as by another step of a `Promise.all`. Await parallel steps with `Promise.allSettled` and throw
   * afterwards, so that one that fails does not abort the others.
   *
   * Step names must be unique within an attempt, for example `item-1`, `item-2` in a loop. Using a name twice fails the job
   * immediately and logs the name, unless its first use failed: a failed step may be repeated.
   */
  readonly step: <Value>(
    name: string,
    work: (signal: AbortSignal) => Promise<JsonCheck<Value, "value"> & Value>,
  ) => Promise<Value>
  /**
   * Submits jobs of a kind of this engine, one for each request, and resolves with them once all are finished, in the order of the
   * requests. While they run, this job holds no slot: the attempt ends, and a later one gets here again. So everything before
   * must be in steps, a step must get the same requests each time, and files are written after it. A failed child is a
   * result, not an error. Canceling this job cancels its children. Children count against no queue cap.
   */
  readonly children: <K extends Kind>(
    step: string,
    kind: K | K["name"],
    requests: ReadonlyArray<InputOf<K>>,
  ) => Promise<ReadonlyArray<ChildJob<K>>>
  /**
   * Waits for a time: milliseconds, a text such as `"90 seconds"` or `"2 days"`, or until a `Date`. Meanwhile the job holds no slot, as
   * with `children`: the attempt ends, and a later one gets here again. A duration counts from when an attempt first gets here. At most
   * 366 days. The wait charges none of the job's limits.
   */
  readonly sleep: (name: string, time: WaitTime) => Promise<void>
  /**
   * Waits for the signal of this name, which `engine.signal(job, name, value)` sends. Meanwhile the job holds no slot, as with `sleep`. A
   * signal that came before counts; of several, the first. A timeout is a value and not an error, and final:
   *
   * ```ts
   * const approved = await waitFor("approved", { timeout: "1 hour", schema: z.object({ by: z.string() }) })
   * if (approved.timedOut) return { output: { published: false } }
   * ```
   *
   * A value that does not match `schema` fails the job. Two waits of one attempt at the same time are one after the other: to wait for
   * whichever comes first, let both send the same name.
   */
  readonly waitFor: <S extends ValueSchema = never>(
    name: string,
    options: { readonly timeout: WaitTime; readonly schema?: S },
  ) => Promise<SignalResult<[S] extends [never] ? Json : ValueOf<S>>>
  /**
   * Submits, reads and cancels other jobs of the same project and mode, without the engine at hand. What it submits appears once, however
   * often the attempt is repeated.
   */
  readonly engine: AttemptEngine
  /**
   * Reports how far the attempt is: a share from 0 to 1, and what it is doing, at most 200 characters, which callers see as
   * `job.progress`: `progress(0.4, "encoding")`. Call it as often as you like: the newest report is stored at most once a second,
   * without waiting, and a report that the store does not take has no effect. The newest one is also stored when the job waits. A number
   * outside of the range, such as a percentage, fails the job as a bug of the kind; NaN is 0.
   */
  readonly progress: (value: number, message?: string) => void
  /**
   * Emits a part of the result while the attempt goes on, such as a token: `for await (const { value } of engine.stream(job))` reads it. It
   * must match the `chunk` schema of the kind, and has at most 64 KiB of JSON; a job keeps at most 100,000 chunks and 16 MiB. Call it as
   * often as you like: chunks are stored in their order and together, at most every 100 ms, without waiting, and all of them before the
   * result. A later attempt goes on after the last chunk that is stored.
   */
  readonly emit: (chunk: Chunk) => void
  /** The number of chunks of the job so far, those before a wait and of earlier attempts included: where an attempt goes on that can. */
  readonly emitted: number
  /**
   * Creates one of the job's files. The file is durable when it resolves. A later attempt creates it again, also after a wait. Writing it
   * twice in one attempt fails the job, and so does a call in a step, which a later attempt skips: return bytes that cost money from a
   * step as text (base64) and write the file after it, or write it in a child job.
   *
   * `data` may be a stream: it is written piece by piece, with one piece in memory. A file that exceeds the `maxBytes` of the kind's
   * `files` (default 64 MiB) fails the attempt while it is written (`result_invalid`). `signal` aborts when the write ends early.
   * Nothing of a file that was not written to its end can be read.
   */
  readonly writeFile: (name: File, work: (signal: AbortSignal) => Promise<AsyncFile>) => Promise<void>
}

/** A finished child of a job, or a finished prerequisite. */
export type ChildJob<K extends Kind = Kind> =
  | {
      readonly id: JobId
      readonly status: "done"
      /** With its files under their names; `null` once its data was erased or has expired. */
      readonly output: OutputOf<K> | null
    }
  | { readonly id: JobId; readonly status: "failed"; readonly errorCode: ErrorCodeOf<K> }

/** Options of a failure that `failure` creates. */
export interface FailureOptions {
  /** A description of the failure, for the log, `onAttemptFailed` and the events. Never a prompt, a transcript or a secret. Default the code. */
  readonly message?: string
  /**
   * A message for the caller if the job fails with it: `job.errorMessage`, and `error_message` in polls of mounted kinds. At most 1,000
   * characters; a longer one is cut. It may quote the request: it is no part of the log and is erased with the job's data.
   */
  readonly publicMessage?: string
  /** Whether another attempt may succeed, within the budget of failures. Default `false`: the job fails immediately. */
  readonly retry?: boolean
  /** Milliseconds before which the job is not retried. */
  readonly retryAfterMs?: number
  /** The error that led to this one. */
  readonly cause?: unknown
}

/** The result of a finished attempt. */
export interface AttemptOutcome<Output, MeterName extends string = string> {
  readonly output: Output
  /** The usage that a live job is charged for: non-negative integers by meter of the kind. None by default. */
  readonly usage?: UsageBy<MeterName>
  readonly warningCode?: WarningCode
}

/** The output of a kind that declares none: whatever its `run` returns. */
export type AnyOutput = object

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

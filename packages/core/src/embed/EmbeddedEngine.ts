import type { JobMode } from "../domain/Access.ts"
import type { AudioFormat } from "../domain/AudioFormat.ts"
import type { UploadId } from "../domain/Ids.ts"
import type { Json } from "../domain/givenValues.ts"
import type { KilnError } from "../domain/KilnError.ts"
import type { MetadataValue } from "../domain/JobMetadata.ts"
import type { PriorityName } from "../domain/Priority.ts"
import type { JobEvent, JobEventType } from "../engine/JobEvent.ts"
import type { JsonCheck } from "../kinds/JsonTypes.ts"
import type { ChunkOf, InputOf, Kind } from "../kinds/KindDefinition.ts"
import type { Drained, DrainLimits } from "../worker/Drained.ts"
import type { FileBody } from "./AsyncProviders.ts"
import type { AbortOption, ProjectOption } from "./CallOptions.ts"
import type { FileReference, JobReference, JobResult, SubmittedJob } from "./JobResult.ts"
import type { OperatorVerbs } from "./OperatorVerbs.ts"
import type { ScheduleVerbs } from "./ScheduleVerbs.ts"

export interface SubmitOptions extends ProjectOption {
  /**
   * Repeating a call with the same key and request returns the same job. If omitted, a random key is used, so every call creates
   * a job.
   */
  readonly idempotencyKey?: string
  /** `sandbox` is free and never reaches a live provider. Default the engine's `mode`. */
  readonly mode?: JobMode
  /**
   * Rank among the waiting jobs of its project and kind: `low` (-1), `normal` (0), `high` (1), `urgent` (2), or an integer from -5 to
   * 5. The highest is served first. Default `normal`.
   */
  readonly priority?: PriorityName | number
  /** Milliseconds until the job may start, default 0, at most a year. */
  readonly delayMs?: number
  /**
   * The time before which the job does not start, instead of `delayMs`; a past time means now. Turned into a delay by this
   * process's clock when the job is submitted; the store's clock counts it down.
   */
  readonly runAt?: Date
  /**
   * Accepts the job only if no other one with the same project, mode and kind counts as the same: otherwise the call resolves with
   * that one, marked `deduplicated`, whatever the rest of its request says. An idempotency key decides first, and is not bound by a
   * call that was deduplicated.
   */
  readonly unique?: UniqueOptions
  /** Up to 16 texts of 1 to 64 characters that `operator.list` and `count` filter by. They stay when the job's data is erased. */
  readonly tags?: ReadonlyArray<string>
  /**
   * Up to 16 fields with booleans, numbers or texts of up to 256 characters (spread an object of an interface type), shown in `job.metadata` beside the fields of the request
   * that the kind keeps. `operator.list` and `count` filter by them. They stay when the job's data is erased: no personal data.
   */
  readonly metadata?: Readonly<Record<string, MetadataValue | undefined>>
  /**
   * The job's prerequisites, up to 100 jobs of the same project and mode or their ids: it starts once all have finished, and `run` gets
   * them as `after`, in this order. Meanwhile it holds no slot and is charged nothing. A retry of a failed one takes its place. They must
   * exist, or the call rejects with `PrerequisiteNotFound`; in a transaction of your own, the job fails instead when it is to start.
   */
  readonly after?: ReadonlyArray<JobReference<string>>
  /**
   * What happens once all jobs of `after` have finished and one of them failed or was canceled. `fail` (default): the job fails with
   * `prerequisite_failed`. `run`: it runs, and sees which failed.
   */
  readonly onPrerequisiteFailure?: "fail" | "run"
}

/** Which jobs of one project, mode and kind count as the same, and for how long. */
export interface UniqueOptions {
  /** A text, or names of request fields whose values are compared. Default the whole request. */
  readonly by?: string | ReadonlyArray<string>
  /**
   * The time for which a job counts as a duplicate: until its first attempt begins (`queued`), until it is done or failed
   * (`unfinished`), or for milliseconds from its creation. Never longer than its record is kept.
   */
  readonly while: "queued" | "unfinished" | number
  /**
   * What happens to the waiting job when another one counts as the same. By default nothing. `extend`: its delay begins again, as the delay of the new
   * call. `replace`: the same, and the job gets everything else of the new call too: request, upload, price, priority, tags, metadata, context.
   * Its prerequisites stay, so `replace` does not work with `after`. Both need `while: "queued"`, and do not work in a transaction.
   */
  readonly onDuplicate?: "extend" | "replace"
}

/** A job of `submitMany`: its request and its own options. */
export interface Submission<Request> extends SubmitOptions {
  readonly request: Request
}

/** The outcome of one job of `submitMany`: the accepted job, or the error that `submit` would reject with. */
export type SubmitOutcome<K extends Kind = Kind> =
  | {
      readonly job: JobResult<K>
      /** Whether an earlier request with this idempotency key made the job. */
      readonly replayed: boolean
      /** The job of an earlier submission, because of `unique`. */
      readonly deduplicated?: true
      readonly error?: undefined
    }
  | { readonly error: KilnError; readonly job?: undefined; readonly replayed?: undefined }

export interface WaitOptions extends AbortOption, ProjectOption {
  /** Milliseconds after which waiting fails with `WaitTimeout`, default five minutes. The job keeps running. */
  readonly timeoutMs?: number
}

/** Options of `stream`. */
export interface StreamOptions extends AbortOption, ProjectOption {
  /** The index of the first chunk, default 0: after a break, the index of the last one that was read plus 1. */
  readonly from?: number
}

/** A part of a job's result that an attempt has emitted. One that was read never changes. */
export interface JobChunk<Value = Json> {
  /** From 0, without gaps, over all attempts of the job. */
  readonly index: number
  /**
   * The attempt that emitted it. If it is another than that of the chunk before, an attempt failed or its process died, and this one began
   * `run` again.
   */
  readonly attempt: number
  readonly value: Value
}

type Named<K extends Kind, Name extends string> = Extract<K, { readonly name: Name }>

export type { FileBody } from "./AsyncProviders.ts"

/** An announced audio file. */
export interface UploadTicket {
  readonly id: UploadId
  readonly format: AudioFormat
  /** When its transfer can no longer begin. */
  readonly expiresAt: Date
  /** Inclusive. */
  readonly maxBytes: number
}

/** A signal that a job has received. */
export interface SentSignal {
  /** Whether this value is the one that the job gets; false if another value came before under this name. */
  readonly isFirst: boolean
}

/** Ends a subscription when it is called, or at the end of a `using` block. */
export interface Subscription extends Disposable {
  (): void
}

/**
 * The engine for code without Effect. Every method rejects with a `KilnError`, with the reason of the signal that aborted it,
 * or with an `AbortError` when the engine is closed.
 *
 * An engine of particular kinds is an `EmbeddedEngine` too, for code that reads, waits for or operates jobs of any kind. Code that
 * submits names the kinds it submits. This is why the verbs that accept jobs are methods, whose parameters the compiler compares in
 * both directions. No method uses `this`, so all may be taken off the engine.
 */
export interface EmbeddedEngine<
  K extends Kind = Kind,
  Transaction = never,
  SyncTransaction = never,
> extends AsyncDisposable {
  /**
   * Creates a job. Once it resolves, the job is as durable as the store. With a `transaction` of your own, the job exists if and
   * only if that commits, and workers are woken then.
   */
  submit<Name extends K["name"]>(
    this: void,
    kind: Name,
    request: InputOf<Named<K, Name>>,
    options?: SubmitOptions & AbortOption & { readonly transaction?: Transaction },
  ): Promise<SubmittedJob<Named<K, Name>>>
  /** Creates a job inside a synchronous transaction, for stores that have them. Throws what `submit` rejects with. */
  submitSync<Name extends K["name"]>(
    this: void,
    kind: Name,
    request: InputOf<Named<K, Name>>,
    options: SubmitOptions & { readonly transaction: SyncTransaction },
  ): SubmittedJob<Named<K, Name>>
  /**
   * Accepts a list of jobs of one kind. Resolves with an outcome for each, in order, once the accepted ones are durable: one
   * refused job does not affect the others. The jobs share commits of up to 500.
   *
   * All requests are read before the first job is stored: an unknown kind or an invalid option rejects the whole call then. A
   * store that fails is an outcome too (`StoreUnavailable`); jobs with an idempotency key can be submitted again. With a
   * `transaction` of the program the jobs exist exactly if that commits, and a failing store rejects the whole call. Aborting
   * `signal` stops the call: jobs that were stored by then remain.
   *
   * @example
   * ```ts
   * const outcomes = await engine.submitMany(
   *   "speech_synthesis",
   *   chapters.map(({ id, text }) => ({ request: { input: text }, idempotencyKey: `chapter-${id}` })),
   * )
   * for (const { error, job } of outcomes) console.log(error === undefined ? job.id : error.code)
   * ```
   */
  submitMany<Name extends K["name"]>(
    this: void,
    kind: Name,
    submissions: ReadonlyArray<Submission<InputOf<Named<K, Name>>>>,
    options?: AbortOption & { readonly transaction?: Transaction },
  ): Promise<ReadonlyArray<SubmitOutcome<Named<K, Name>>>>
  /** `submitMany` inside a synchronous transaction, for stores that have them. Throws what `submitMany` rejects with. */
  submitManySync<Name extends K["name"]>(
    this: void,
    kind: Name,
    submissions: ReadonlyArray<Submission<InputOf<Named<K, Name>>>>,
    options: { readonly transaction: SyncTransaction },
  ): ReadonlyArray<SubmitOutcome<Named<K, Name>>>
  /** Returns any job of this installation, or only of one project if it is given. */
  readonly get: <Name extends K["name"] = K["name"]>(
    job: JobReference<Name>,
    options?: ProjectOption & AbortOption,
  ) => Promise<JobResult<Named<K, Name>>>
  /** Waits until the job is finished and returns it. The worker that finishes it, in this process or another, wakes the call. */
  readonly wait: <Name extends K["name"] = K["name"]>(
    job: JobReference<Name>,
    options?: WaitOptions,
  ) => Promise<JobResult<Named<K, Name>>>
  /** Submits a job and waits for it. */
  submitAndWait<Name extends K["name"]>(
    this: void,
    kind: Name,
    request: InputOf<Named<K, Name>>,
    options?: SubmitOptions & WaitOptions,
  ): Promise<JobResult<Named<K, Name>>>
  /**
   * Sends a signal to a job, which `waitFor` in its `run` receives. It may come before the job waits for it. One value counts for each
   * name, the first: `isFirst` is false if another value came before. Repeating a call has no effect. Rejects with `job_finished` once
   * the job has ended. With a `transaction`, the signal takes effect exactly if that commits.
   */
  signal<Value = undefined>(
    this: void,
    job: JobReference<string>,
    name: string,
    value?: JsonCheck<Value, "value"> & Value,
    options?: ProjectOption & AbortOption & { readonly transaction?: Transaction },
  ): Promise<SentSignal>
  /** Sends a signal inside a synchronous transaction, for stores that have them. Throws what `signal` rejects with. */
  signalSync<Value>(
    this: void,
    job: JobReference<string>,
    name: string,
    value: JsonCheck<Value, "value"> & Value,
    options: ProjectOption & { readonly transaction: SyncTransaction },
  ): SentSignal
  /**
   * Reads what the attempts of a job emit: all chunks that it has, from the index `from`, and then each further one as it is stored, until
   * the job has finished. Any number of readers, in any process, see the same chunks, also later, as long as the job's data is kept. An
   * outage of the store only delays them. Rejects with `JobNotFound` for an unknown job; whether the job failed is for `get` to say.
   *
   * @example
   * ```ts
   * for await (const { index, value } of engine.stream(job)) process.stdout.write(value.token)
   * ```
   */
  readonly stream: <Name extends K["name"] = K["name"]>(
    job: JobReference<Name>,
    options?: StreamOptions,
  ) => AsyncIterable<JobChunk<ChunkOf<Named<K, Name>>>>
  /** Deletes the retained data of a finished job, including its files. */
  readonly eraseData: (job: JobReference<string>, options?: ProjectOption & AbortOption) => Promise<void>
  /** Announces an audio file. Its job must have the same mode and project. */
  readonly createUpload: (
    upload: { readonly format: AudioFormat; readonly declaredSeconds: number },
    options?: { readonly mode?: JobMode } & ProjectOption & AbortOption,
  ) => Promise<UploadTicket>
  readonly receiveUpload: (
    upload: string | { readonly id: string },
    contentType: string,
    body: FileBody,
    options?: AbortOption,
  ) => Promise<void>
  /** Reads a generated file into memory. */
  readonly readFile: (file: FileReference, options?: AbortOption) => Promise<Uint8Array>
  /** Streams a generated file; leaving the loop closes it. */
  readonly streamFile: (file: FileReference, options?: AbortOption) => AsyncIterable<Uint8Array>
  /**
   * Calls a listener for each event of a job in this process. Best effort: events of other processes, events without a listener
   * and events during a crash are lost. Use `get`, `wait` or `operator.list` for anything that must not be missed.
   */
  readonly on: <Type extends JobEventType>(
    type: Type,
    listener: (event: Extract<JobEvent, { readonly type: Type }>) => void,
  ) => Subscription
  /** Streams the same events, from this call until the engine has stopped. A slow reader loses the oldest events beyond 1,000. */
  readonly events: (options?: AbortOption) => AsyncIterableIterator<JobEvent>
  /** Jobs that are submitted again and again. */
  readonly schedules: ScheduleVerbs<K>
  /** Operator methods, for the jobs of all projects. */
  readonly operator: OperatorVerbs<K>
  /**
   * Runs the jobs that can begin now, and returns once none is left, or at a limit: for functions that a timer calls. Also submits the jobs
   * of due schedules and calls `onFinished`. Jobs that still run after `maxMs` are released at no cost of an attempt. The engine
   * needs `autoStart: false`; while its worker runs, the call rejects with a `TypeError`.
   */
  readonly drain: (options: DrainOptions) => Promise<Drained>
  /** Starts the worker if `autoStart` is `false`. Calling it again has no effect. */
  readonly start: () => Promise<void>
  /**
   * Shuts down: refuses new calls, lets running jobs finish for `drainMs` milliseconds (default from the settings: 25 s),
   * releases the others and closes the stores. Waiting calls reject with an `AbortError`. Rejects with `StoreUnavailable` when all this
   * takes 25 s longer than `drainMs`, because a store does not answer: the process may exit then, and jobs in progress are taken over.
   */
  readonly stop: (options?: { readonly drainMs?: number }) => Promise<void>
}

export interface DrainOptions extends DrainLimits, AbortOption {}

import type { JobMode } from "../domain/Access.ts"
import type { AudioFormat } from "../domain/AudioFormat.ts"
import type { UploadId } from "../domain/Ids.ts"
import type { KilnError } from "../domain/KilnError.ts"
import type { Priority } from "../domain/Priority.ts"
import type { FileRef, InputOf, Kind } from "../kinds/KindTypes.ts"
import type { JobEvent, JobEventType } from "../engine/JobEvent.ts"
import type { JobReference, JobResult } from "./JobResult.ts"
import type { OperatorVerbs } from "./OperatorVerbs.ts"

export interface ProjectOption {
  /**
   * Whose job it is, for programs with several tenants: a plain name of 1 to 64 letters, digits, `-` and `_`. Tenants take
   * turns, have a queue cap each, and never see each other's jobs where this is given. Default `embedded`.
   */
  readonly project?: string
}

export interface SubmitOptions extends ProjectOption {
  /** A repeat with the same key and the same request returns the same job. Made up where none is given: then every call is a job of its own. */
  readonly idempotencyKey?: string
  /** `sandbox` costs nothing and never reaches a live provider. Default `sandbox`; `live` where the engine has live providers alone. */
  readonly mode?: JobMode
  /** Among the waiting jobs of its project and kind. Default `normal`. */
  readonly priority?: Priority
  /** Milliseconds before which it is not begun, default 0; at most a year. */
  readonly delayMs?: number
}

/** A job of `submitMany`: its request and its own options. */
export interface Submission<Request> extends SubmitOptions {
  readonly request: Request
}

/** What became of one job of `submitMany`: the accepted job, or the error that `submit` would reject with. */
export type SubmitOutcome<K extends Kind = Kind> =
  | {
      readonly job: JobResult<K>
      /** Whether an earlier request with this idempotency key made the job. */
      readonly replayed: boolean
      readonly error?: undefined
    }
  | { readonly error: KilnError; readonly job?: undefined; readonly replayed?: undefined }

export interface AbortOption {
  readonly signal?: AbortSignal
}

export interface WaitOptions extends AbortOption, ProjectOption {
  /** Milliseconds until it is given up (`WaitTimeout`), default five minutes. The job goes on. */
  readonly timeoutMs?: number
}

type Named<K extends Kind, Name extends string> = Extract<K, { readonly name: Name }>

/** Bytes as programs have them. */
export type FileBody = Uint8Array | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/** An announced audio file. */
export interface UploadTicket {
  readonly id: UploadId
  readonly format: AudioFormat
  /** By when its transfer must have begun. */
  readonly expiresAt: Date
  /** Inclusive. */
  readonly maxBytes: number
}

/** Ends what it stands for, when it is called or at the end of a `using` block. */
export interface Subscription extends Disposable {
  (): void
}

/**
 * The engine for code without Effect. Every method rejects with a `KilnError`, with the reason of the signal that aborted it,
 * or with an `AbortError` when the engine is closed.
 */
export interface EmbeddedEngine<
  K extends Kind = Kind,
  Transaction = never,
  SyncTransaction = never,
> extends AsyncDisposable {
  /**
   * Accepts a job; when it resolves, the job survives whatever the store survives. With a `transaction` of the program's own
   * the job exists exactly if that commits, and workers are woken then.
   */
  readonly submit: <Name extends K["name"]>(
    kind: Name,
    request: InputOf<Named<K, Name>>,
    options?: SubmitOptions & AbortOption & { readonly transaction?: Transaction },
  ) => Promise<JobResult<Named<K, Name>>>
  /** The same inside a synchronous transaction, for stores that have them. Throws what `submit` rejects with. */
  readonly submitSync: <Name extends K["name"]>(
    kind: Name,
    request: InputOf<Named<K, Name>>,
    options: SubmitOptions & { readonly transaction: SyncTransaction },
  ) => JobResult<Named<K, Name>>
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
  readonly submitMany: <Name extends K["name"]>(
    kind: Name,
    submissions: ReadonlyArray<Submission<InputOf<Named<K, Name>>>>,
    options?: AbortOption & { readonly transaction?: Transaction },
  ) => Promise<ReadonlyArray<SubmitOutcome<Named<K, Name>>>>
  /** `submitMany` inside a synchronous transaction, for stores that have them. Throws what `submitMany` rejects with. */
  readonly submitManySync: <Name extends K["name"]>(
    kind: Name,
    submissions: ReadonlyArray<Submission<InputOf<Named<K, Name>>>>,
    options: { readonly transaction: SyncTransaction },
  ) => ReadonlyArray<SubmitOutcome<Named<K, Name>>>
  /** Any job of this installation; of one project, where it is given. */
  readonly get: <Name extends K["name"] = K["name"]>(
    job: JobReference<Name>,
    options?: ProjectOption & AbortOption,
  ) => Promise<JobResult<Named<K, Name>>>
  /** The job once it is finished. Woken by the worker that finishes it, in this process or another. */
  readonly wait: <Name extends K["name"] = K["name"]>(
    job: JobReference<Name>,
    options?: WaitOptions,
  ) => Promise<JobResult<Named<K, Name>>>
  /** Submits and waits. */
  readonly run: <Name extends K["name"]>(
    kind: Name,
    request: InputOf<Named<K, Name>>,
    options?: SubmitOptions & WaitOptions,
  ) => Promise<JobResult<Named<K, Name>>>
  /** Deletes what a finished job retains, its files included. */
  readonly erase: (job: JobReference<string>, options?: ProjectOption & AbortOption) => Promise<void>
  /** Announces an audio file. Its job must have the same mode and project. */
  readonly createUpload: (
    upload: { readonly format: AudioFormat; readonly declaredSeconds: number },
    options?: { readonly mode?: JobMode } & ProjectOption & AbortOption,
  ) => Promise<UploadTicket>
  readonly receiveUpload: (
    upload: string | UploadTicket,
    contentType: string,
    body: FileBody,
    options?: AbortOption,
  ) => Promise<void>
  /** A generated file, whole. */
  readonly readFile: (file: Pick<FileRef, "id">, options?: AbortOption) => Promise<Uint8Array>
  /** A generated file in pieces; leaving the loop closes it. */
  readonly streamFile: (file: Pick<FileRef, "id">, options?: AbortOption) => AsyncIterable<Uint8Array>
  /**
   * Calls back when something happens to a job in this process. A convenience: what happens in another process, while nobody
   * listens, or as this one dies is not told. What must not be missed is asked of the store: `get`, `wait`, `operator.list`.
   */
  readonly on: <Type extends JobEventType>(
    type: Type,
    listener: (event: Extract<JobEvent, { readonly type: Type }>) => void,
  ) => Subscription
  /** The same as a stream, from this call on until the engine has stopped. Who is slow loses the oldest of more than 1,000 events. */
  readonly events: (options?: AbortOption) => AsyncIterableIterator<JobEvent>
  /** What an operator may ask, about the jobs of all projects. */
  readonly operator: OperatorVerbs<K>
  /** Starts the worker, where `autoStart` is off. Again is nothing. */
  readonly start: () => Promise<void>
  /**
   * Accepts nothing more, lets running jobs finish, releases the rest and closes the stores. `drainMs` is how long they may
   * take, the settings' 25 s by default. Waiting calls end with an `AbortError`.
   */
  readonly stop: (options?: { readonly drainMs?: number }) => Promise<void>
}

import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type {
  BlobCorrupt,
  BlobUnavailable,
  ErrorCode,
  Job,
  JobId,
  JobMode,
  JsonObject,
  OutputFile,
  Parking,
  StoreUnavailable,
  WarningCode,
} from "../domain/index.ts"
import type { PriorityName } from "../domain/Priority.ts"
import type { MetadataValue, Submitted } from "../domain/JobMetadata.ts"
import type { Usage } from "../domain/Billing.ts"
import type {
  AnswerOf,
  AudioInput,
  NameOf,
  ProviderCall,
  ProviderName,
  ProviderRef,
  ProviderRequest,
} from "../providers/index.ts"
import type { ProviderCallError } from "../providers/ProviderError.ts"
import type { ProviderPaused } from "../providers/circuitBreaker.ts"
import type { FileGone, InvalidRequest, JobFinished, JobNotFound } from "../domain/Errors.ts"
import type { SignalResult, WaitTime } from "../domain/WaitTime.ts"
import type { JsonCheck } from "./JsonTypes.ts"
import type { ValueSchema } from "./StandardSchema.ts"

/** Ends an attempt that cannot succeed, with the reason. */
export class AttemptFailed extends Data.TaggedError("AttemptFailed")<{
  readonly errorCode: ErrorCode
  /** True if another attempt may succeed. */
  readonly retry: boolean
  /** For the log. Never a prompt, a transcript or a secret. */
  readonly detail: string
  /** A message for the caller if the job fails with it, in up to 1,000 characters. It is erased with the job's data. */
  readonly publicMessage?: string
  /** Milliseconds before which the job is not retried. */
  readonly retryAfterMs?: number
  readonly cause?: unknown
}> {
  override get message(): string {
    return this.detail
  }
  /** Writable, so that code which catches the error can add to it. */
  override set message(message: string) {
    Object.defineProperty(this, "message", { value: message, writable: true, configurable: true })
  }
}

/** The lease is lost: another worker may have claimed the job, and this attempt can write nothing more. */
export class LeaseLost extends Data.TaggedError("LeaseLost") {}

/** A switch or price that live jobs of the kind need was turned off. The job is released at no cost and waits until it is on again. */
export class GateShut extends Data.TaggedError("GateShut")<{ readonly missing: ReadonlyArray<string> }> {}

/** The attempt waits for something: its job is parked until then, without a slot, and a later attempt goes on. */
export class AttemptParked extends Data.TaggedError("AttemptParked")<{ readonly park: Parking }> {}

/** How long `waitFor` waits. */
export interface SignalOptions {
  /** Counted from the first attempt that gets there; a `Date` is compared with the store's clock. At most 366 days. */
  readonly timeout: WaitTime
  /** The values that are accepted. Another one fails the job. */
  readonly schema?: ValueSchema | undefined
}

/** Options of a job that an attempt submits. */
export interface FollowUpOptions {
  /** Default that of the submitting job. */
  readonly priority?: PriorityName | number | undefined
  /** Milliseconds before which the job does not start, default 0; at most 366 days. */
  readonly delayMs?: number | undefined
  readonly tags?: ReadonlyArray<string> | undefined
  readonly metadata?: Readonly<Record<string, MetadataValue>> | undefined
}

/** The engine, for the jobs of the owner of an attempt's job: of its project, key and mode. */
export interface AttemptEngine {
  /**
   * Submits a job of a kind of this engine and returns its id, without waiting for it. However often the attempt is repeated, there is one
   * job for each step: the name is one of the steps' names, and the request must be the same in each attempt. The job counts against no
   * queue cap. While a switch or a price of the kind is missing, this job waits.
   */
  readonly submit: (
    step: string,
    kind: string,
    request: unknown,
    options?: FollowUpOptions,
  ) => Effect.Effect<JobId, AttemptError>
  /**
   * Submits a job together with the result of this one: both are committed in one transaction, so the job exists exactly if this one is
   * done. Returns the id that it will have, the same in each attempt. Only calls of the attempt that succeeds count. The request is
   * checked now. If the job's price is missing or a spend cap reached when this job ends, it exists as failed (`not_accepted`), so that
   * the result is kept. At most 100 for each job; a kind with an upload cannot be submitted so.
   */
  readonly submitWith: AttemptEngine["submit"]
  /** Reads a job as it is now. */
  readonly get: (jobId: string) => Effect.Effect<Job, JobNotFound | AttemptError>
  /** Reads a file of a job, piece by piece. Fails with `FileGone` once its data was erased. */
  readonly readFile: (fileId: string) => Stream.Stream<Uint8Array, FileGone | AttemptError>
  /** Sends a signal to a job. Repeating it has no effect. */
  readonly signal: (
    jobId: string,
    name: string,
    value?: unknown,
  ) => Effect.Effect<{ readonly isFirst: boolean }, JobNotFound | JobFinished | InvalidRequest | AttemptError>
  /** Fails an unfinished job with `canceled_by_operator`. Repeating it has no effect. Fails with `JobFinished` if it has ended otherwise. */
  readonly cancel: (jobId: string) => Effect.Effect<void, JobNotFound | JobFinished | AttemptError>
}

/** A finished child of a step, or a finished prerequisite. */
export type Child =
  | {
      readonly id: JobId
      readonly status: "done"
      /** With its files under their names; `null` once its data was erased or has expired. */
      readonly output: object | null
    }
  | { readonly id: JobId; readonly status: "failed"; readonly errorCode: ErrorCode }

/** Every way an attempt can end without a result. */
export type AttemptError =
  | AttemptFailed
  | ProviderCallError
  | ProviderPaused
  | LeaseLost
  | GateShut
  | AttemptParked
  | BlobUnavailable
  | BlobCorrupt
  | StoreUnavailable

/** A file for an attempt to store. */
export interface AttemptFile {
  /** The bytes, or a stream that is written piece by piece. A stream is read once. */
  readonly data: Uint8Array | Stream.Stream<Uint8Array, AttemptError>
  /** For example `audio/mpeg`. */
  readonly mediaType: string
}

/** The uploaded file, with its measured length. */
export interface MeasuredAudio extends AudioInput {
  /** The length that the caller declared. */
  readonly declaredSeconds: number
  /** False if the file could not be measured, so that its length is the declared one. */
  readonly isMeasured: boolean
}

/**
 * Calls the providers of the job's mode. Calls stay within the provider's limits, and responses are validated. The providers of the
 * set that serves the kind are always available; calling a missing one is a defect and fails the job.
 */
export type Ask<Ref extends ProviderRef = ProviderName> = {
  readonly [Each in Ref as NameOf<Each>]: (
    request: ProviderRequest<Each>,
  ) => Effect.Effect<AnswerOf<Each>, AttemptError>
}

/**
 * The context passed to `run`. If the attempt cannot go on, because it must wait, the worker stops or the lease is lost, `run` is
 * interrupted in the effect that found out: handlers of failures and causes are skipped, finalizers run, and no other part begins.
 */
export interface AttemptContext<Request, Ref extends ProviderRef = never> {
  readonly request: Request
  /** The version of the kind that accepted the request, between the kind's `readsFrom` and `version`. */
  readonly kindVersion: number
  readonly mode: JobMode
  readonly call: ProviderCall
  /** Tags, metadata and context of the submission. */
  readonly submitted: Submitted
  /** The jobs that this one was to start after, in the order of `submitted.after`. The retry of a failed one takes its place. */
  readonly after: ReadonlyArray<Child>
  readonly ask: Ask<ProviderName | Ref>
  /** Returns whether a provider is available, for kinds that more than one set of providers can serve. */
  readonly has: (provider: NameOf<ProviderName | Ref>) => boolean
  /** The job's upload, measured and within limits. Fails the job if the kind has no upload. */
  readonly audio: Effect.Effect<MeasuredAudio, AttemptError>
  /**
   * Runs a named step. The gate is checked first, and the step ends if the lease is lost. Its value is kept as a checkpoint:
   * a later attempt gets it without running the step again. Names must be unique within an attempt; using one twice fails the
   * job immediately, unless its first use failed.
   */
  readonly step: <A, E extends AttemptError>(
    name: string,
    effect: Effect.Effect<JsonCheck<A, "value"> & A, E>,
  ) => Effect.Effect<A, AttemptError>
  /** Runs the last step. Its value is not kept as a checkpoint, because the result that follows contains it. */
  readonly lastStep: <A, E extends AttemptError>(
    name: string,
    effect: Effect.Effect<A, E>,
  ) => Effect.Effect<A, AttemptError>
  /**
   * Submits jobs of a kind, a request each, and returns them once all are finished, in the order of the requests. Until then the
   * attempt ends without holding a slot, and a later one gets here again: everything before must be in steps. A failed child
   * is a value, not an error. The name is one of the steps' names, and a step has the same requests in each attempt.
   */
  readonly children: (
    step: string,
    kind: string,
    requests: ReadonlyArray<unknown>,
  ) => Effect.Effect<ReadonlyArray<Child>, AttemptError>
  /**
   * Waits for a time without holding a slot: a duration from when an attempt first gets here, or a `Date`. The attempt ends, and a later
   * one gets here again, so everything before must be in steps. The name is one of the steps' names.
   */
  readonly sleep: (name: string, time: WaitTime) => Effect.Effect<void, AttemptError>
  /**
   * Waits for a signal of this name, without holding a slot, like `sleep`. A signal that came before counts; of several, the first. A
   * timeout is a value, and final: a signal that comes later has no effect.
   */
  readonly waitFor: (name: string, options: SignalOptions) => Effect.Effect<SignalResult, AttemptError>
  /** Submits, reads and cancels other jobs of the owner of this one. */
  readonly engine: AttemptEngine
  /**
   * Reports how far the attempt is: a share from 0 to 1, and what it is doing, at most 200 characters, which callers see. The newest
   * report is stored at most once a second, and once more when the job waits; it never waits or fails because of the store. A number
   * outside of the range is a bug of the kind.
   */
  readonly progress: (value: number, message?: string) => Effect.Effect<void>
  /**
   * Emits a part of the result while the attempt goes on, for readers of the job's stream. It does not wait for the store: chunks are
   * written in their order and together, at most every 100 ms, and all of them before the result. Fails the attempt if the chunk does not
   * match the schema of the kind, or exceeds a limit. A later attempt goes on after the last chunk.
   */
  readonly emit: (chunk: unknown) => Effect.Effect<void, AttemptFailed>
  /** The number of chunks of the job so far, those of earlier attempts included. */
  readonly emitted: number
  /**
   * Stores a file under a name. The blob is durable when this succeeds. Using a name twice fails the job immediately, and so does a call
   * in a step, which a later attempt skips; the last step may store files. A file beyond the `maxBytes` of its kind fails with
   * `result_invalid` while it is written, and nothing of it can be read.
   */
  readonly keepFile: (name: string, file: AttemptFile) => Effect.Effect<OutputFile, AttemptError>
  /**
   * Creates a file, and stores it like `keepFile`. Files are not kept between attempts: return bytes that cost money from a step as text
   * (base64), or write the file in a child job. The blob is durable when this succeeds.
   */
  readonly writeFile: <E extends AttemptError>(
    name: string,
    effect: Effect.Effect<AttemptFile, E>,
  ) => Effect.Effect<OutputFile, AttemptError>
}

/** The result of an attempt. */
export interface AttemptResult<Output = JsonObject> {
  readonly output: Output
  readonly files: ReadonlyArray<OutputFile>
  /** The usage that a live job is charged for: non-negative integers by meter of the kind. */
  readonly usage: Usage
  readonly warningCode?: WarningCode | undefined
}

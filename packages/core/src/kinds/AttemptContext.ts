import { type Effect, Schema } from "effect"
import {
  type BlobCorrupt,
  type BlobUnavailable,
  errorCodes,
  type JobMode,
  type Json,
  type JsonObject,
  type OutputFile,
  type StoreUnavailable,
  type Usage,
  type WarningCode,
} from "../domain/index.ts"
import type {
  AudioInput,
  GeneratedFile,
  ProviderAnswers,
  ProviderCall,
  ProviderCallError,
  ProviderName,
  ProviderRequests,
} from "../ports/index.ts"

/** An attempt found out for itself that it cannot succeed. */
export class AttemptFailed extends Schema.TaggedError<AttemptFailed>()("AttemptFailed", {
  errorCode: Schema.Literals(errorCodes),
  /** Whether another attempt may succeed. */
  retry: Schema.Boolean,
  /** For the log. Never a prompt, a transcript or a secret. */
  detail: Schema.String,
}) {
  override get message(): string {
    return this.detail
  }
  /** Whoever catches it may say more. */
  override set message(message: string) {
    Object.defineProperty(this, "message", { value: message, writable: true, configurable: true })
  }
}

/** The claim is lost: another worker has the job, or may have. Whatever this attempt still does must not be written. */
export class LeaseLost extends Schema.TaggedError<LeaseLost>()("LeaseLost", {}) {}

/** A live prerequisite was switched off: the job goes back, unharmed, until it is on again. */
export class GateShut extends Schema.TaggedError<GateShut>()("GateShut", {
  missing: Schema.Array(Schema.String),
}) {}

/** A provider is paused in this process, because it failed or is broken: the job goes back and is tried again later. */
export class ProviderPaused extends Schema.TaggedError<ProviderPaused>()("ProviderPaused", {
  provider: Schema.String,
}) {}

/** Every way an attempt may end without a result. */
export type AttemptError =
  | AttemptFailed
  | ProviderCallError
  | ProviderPaused
  | LeaseLost
  | GateShut
  | BlobUnavailable
  | BlobCorrupt
  | StoreUnavailable

/** The uploaded file, measured. */
export interface MeasuredAudio extends AudioInput {
  /** What the caller declared, in seconds. */
  readonly declaredSeconds: number
}

/**
 * The providers of a job's mode, as an attempt asks them: each call within its bounds, each answer checked to be one. Asking
 * for one that is not there is a defect; those of the set that serves the kind are.
 */
export type Ask = {
  readonly [Name in ProviderName]: (
    request: ProviderRequests[Name],
  ) => Effect.Effect<ProviderAnswers[Name], AttemptError>
}

/** What an attempt has in hand. */
export interface AttemptContext<Request> {
  readonly request: Request
  /** The version of the kind the request was made for, between the kind's `readsFrom` and `version`. */
  readonly kindVersion: number
  readonly mode: JobMode
  readonly call: ProviderCall
  readonly ask: Ask
  /** Whether there is such a provider, for kinds that more than one set of them can serve. */
  readonly has: (provider: ProviderName) => boolean
  /** The upload this job consumes, measured and within limits. Fails the job where the kind has none. */
  readonly audio: Effect.Effect<MeasuredAudio, AttemptError>
  /**
   * A named step: the gate is checked before it, it ends when the claim is lost, and its value is
   * kept, so that a later attempt gets it without running the step again. Each step of an attempt needs a name of its own: a
   * name that is used twice fails the job at once, unless its first use failed.
   */
  readonly step: <A extends Json, E extends AttemptError>(
    name: string,
    effect: Effect.Effect<A, E>,
  ) => Effect.Effect<A, AttemptError>
  /** The same for a last step: its value is not kept, because the result that follows at once holds it. Its name is a step's name. */
  readonly lastStep: <A, E extends AttemptError>(
    name: string,
    effect: Effect.Effect<A, E>,
  ) => Effect.Effect<A, AttemptError>
  /** Stores a file under a name: its blob is durable when it returns. A name that is used twice fails the job at once. */
  readonly keepFile: (name: string, file: GeneratedFile) => Effect.Effect<OutputFile, AttemptError>
  /** The same for a step whose value is a file and therefore not kept between attempts: the blob is durable when it returns. */
  readonly fileStep: <E extends AttemptError>(
    name: string,
    effect: Effect.Effect<GeneratedFile, E>,
  ) => Effect.Effect<OutputFile, AttemptError>
}

/** What a finished attempt hands over. */
export interface AttemptResult<Output = JsonObject> {
  readonly output: Output
  readonly files: ReadonlyArray<OutputFile>
  /** What a live job is charged for: whole numbers, not below 0, under the kind's meters. */
  readonly usage: Usage
  readonly warningCode?: WarningCode | undefined
}

import { type Effect, Schema } from "effect"
import {
  type BlobCorrupt,
  type BlobUnavailable,
  errorCodes,
  type Gate,
  type JobMode,
  type Json,
  type JsonObject,
  type KeyScope,
  type OutputFile,
  type StoreUnavailable,
  type SwitchName,
  type UploadId,
  type Usage,
  type WarningCode,
} from "../domain/index.ts"
import type {
  AudioInput,
  GeneratedFile,
  ProviderAnswers,
  ProviderCall,
  ProviderError,
  ProviderName,
  ProviderRequests,
} from "../ports/index.ts"
import type { FieldsSchema } from "./decodeFields.ts"

/** An attempt found out for itself that it cannot succeed. */
export class AttemptFailed extends Schema.TaggedError<AttemptFailed>()("AttemptFailed", {
  errorCode: Schema.Literals(errorCodes),
  /** Whether another attempt may succeed. */
  retry: Schema.Boolean,
  /** For the log. Never a prompt, a transcript or a secret. */
  detail: Schema.String,
}) {}

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
  | ProviderError
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
   * kept, so that a later attempt gets it without running the step again.
   */
  readonly step: <A extends Json, E extends AttemptError>(
    name: string,
    effect: Effect.Effect<A, E>,
  ) => Effect.Effect<A, AttemptError>
  /** The same for a last step: its value is not kept, because the result that follows at once holds it. */
  readonly lastStep: <A, E extends AttemptError>(
    name: string,
    effect: Effect.Effect<A, E>,
  ) => Effect.Effect<A, AttemptError>
  /** Stores a file under a name: its blob is durable when it returns. */
  readonly keepFile: (name: string, file: GeneratedFile) => Effect.Effect<OutputFile, AttemptError>
  /** The same for a step whose value is a file and therefore not kept between attempts: the blob is durable when it returns. */
  readonly fileStep: <E extends AttemptError>(
    name: string,
    effect: Effect.Effect<GeneratedFile, E>,
  ) => Effect.Effect<OutputFile, AttemptError>
}

/** What a finished attempt hands over. */
export interface AttemptResult {
  readonly output: JsonObject
  readonly files: ReadonlyArray<OutputFile>
  /** What a live job is charged for. */
  readonly usage: Usage
  readonly warningCode?: WarningCode | undefined
}

/** Everything particular to one kind of job. Engine, worker and stores know only this. */
export interface JobKind<Name extends string = string, Request extends JsonObject = JsonObject> {
  /** What callers see as `type`. */
  readonly name: Name
  /** Of the requests this code accepts, from 1. */
  readonly version: number
  /** The oldest version of stored requests this code can run, and with it every one up to `version`. */
  readonly readsFrom: number
  /** The scope a key must have to create, read and erase such jobs. */
  readonly keyScope: KeyScope
  /** The fields of a request, with their limits. */
  readonly request: FieldsSchema<Request>
  /** What live jobs of this kind need. */
  readonly gate: Gate
  /** Sets of provider ports, each of which can serve the kind; the first that is whole does. */
  readonly providers: ReadonlyArray<ReadonlyArray<ProviderName>>
  /** The upload a request consumes. */
  uploadOf(request: Request): UploadId | null
  /** One attempt. Interrupted when the claim is lost or the worker stops. */
  run(attempt: AttemptContext<Request>): Effect.Effect<AttemptResult, AttemptError>
}

/**
 * Defines a job kind. Raise `version` whenever stored requests of the new code could not be run by the old code: while a new
 * release is rolled out, workers of the old one leave such jobs to the others. Raise `readsFrom` (default 1) once the code
 * for older requests is gone and none of them is unfinished any more; what is left of them waits until it times out.
 */
export const JobKind = <const Name extends string, Request extends JsonObject>(definition: {
  readonly name: Name
  /** A positive integer, default 1. */
  readonly version?: number
  /** Between 1, the default, and `version`. */
  readonly readsFrom?: number
  readonly keyScope: KeyScope
  readonly request: FieldsSchema<Request>
  readonly price: string
  readonly switches: ReadonlyArray<SwitchName>
  /** The provider ports its steps use: who lacks one cannot run the kind. */
  readonly providers: ReadonlyArray<ProviderName>
  /** Ports that can serve the kind in place of those, and do so where they are there. */
  readonly orProviders?: ReadonlyArray<ProviderName>
  readonly uploadOf?: (request: Request) => UploadId
  readonly run: (attempt: AttemptContext<Request>) => Effect.Effect<AttemptResult, AttemptError>
}): JobKind<Name, Request> => ({
  name: nameOf(definition.name),
  ...versionsOf(definition),
  keyScope: definition.keyScope,
  request: definition.request,
  gate: { price: definition.price, switches: definition.switches, kind: definition.name },
  providers: [...(definition.orProviders === undefined ? [] : [definition.orProviders]), definition.providers],
  uploadOf: (request) => definition.uploadOf?.(request) ?? null,
  run: definition.run,
})

/** Stores write a kind and its version as one word, with this sign between them. */
const nameOf = <Name extends string>(name: Name): Name => {
  if (name === "" || name.includes("@")) throw new TypeError(`"${name}" cannot be the name of a job kind`)
  return name
}

const versionsOf = ({
  name,
  version = 1,
  readsFrom = 1,
}: {
  readonly name: string
  readonly version?: number
  readonly readsFrom?: number
}): { readonly version: number; readonly readsFrom: number } => {
  if (!Number.isSafeInteger(version) || version < 1)
    throw new TypeError(`the version of ${name} must be a positive integer, not ${version}`)
  if (!Number.isSafeInteger(readsFrom) || readsFrom < 1 || readsFrom > version)
    throw new TypeError(`${name} must read requests from a version between 1 and its own, ${version}, not ${readsFrom}`)
  return { version, readsFrom }
}

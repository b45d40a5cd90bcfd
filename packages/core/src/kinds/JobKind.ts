import { type Effect, Result, Schema } from "effect"
import {
  meters as builtInMeters,
  type BlobCorrupt,
  type BlobUnavailable,
  errorCodes,
  type Gate,
  type JobMode,
  type Json,
  type JsonObject,
  type KeyScope,
  type Meter,
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
import type { FileRef, Kind, KindTypes } from "./KindTypes.ts"
import { type RequestReader, type RequestSchema, requestReader } from "./requestReader.ts"
import { isStandardSchema, type StandardSchema } from "./StandardSchema.ts"

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
export interface AttemptResult<Output = JsonObject> {
  readonly output: Output
  readonly files: ReadonlyArray<OutputFile>
  /** What a live job is charged for: whole numbers, not below 0, under the kind's meters. */
  readonly usage: Usage
  readonly warningCode?: WarningCode | undefined
}

/** Bounds of one kind, in place of the engine's. Durations in milliseconds. */
export interface KindLimits {
  /** All waiting of a job together, then `queue_timeout`. */
  readonly queueLimitMs?: number
  /** All running of a job together, then `job_timeout`. */
  readonly runLimitMs?: number
  /** Attempts that may fail. */
  readonly maxFailures?: number
  /** Jobs of the kind in hand at once, in the whole installation and by mode. */
  readonly concurrency?: number
}

/** Everything particular to one kind of job. Engine, worker and stores know only this. */
export interface JobKind<Name extends string = string, Types extends KindTypes = KindTypes> extends Kind<Name, Types> {
  /** Of the requests this code accepts, from 1. */
  readonly version: number
  /** The oldest version of stored requests this code can run, and with it every one up to `version`. */
  readonly readsFrom: number
  /** The scope a key must have to create, read and erase such jobs. */
  readonly keyScope: KeyScope
  /** The fields of a request, with their limits. */
  readonly request: RequestSchema<Types["request"]>
  /** Reads a request, a caller's or a stored one. */
  readonly reader: RequestReader<Types["request"]>
  /** Fields of the request that are not the caller's data: they stay when it is erased. */
  readonly keeps: ReadonlyArray<string>
  /** Names of the files a finished job has. */
  readonly files: ReadonlyArray<string>
  /** What jobs of the kind are charged for, by name. */
  readonly meters: ReadonlyArray<Meter>
  readonly limits: KindLimits
  /** What live jobs of this kind need. */
  readonly gate: Gate
  /** Sets of provider ports, each of which can serve the kind; the first that is whole does. */
  readonly providers: ReadonlyArray<ReadonlyArray<ProviderName>>
  /** The upload a request consumes. */
  uploadOf(request: Types["request"]): UploadId | null
  /** Why an output is not what the kind promises; `undefined` when it is. */
  outputProblem(output: JsonObject): string | undefined
  /** One attempt. Interrupted when the claim is lost or the worker stops. */
  run(attempt: AttemptContext<Types["request"]>): Effect.Effect<AttemptResult, AttemptError>
}

/** Output fields, as they are described; any JSON object where they are not. */
export type OutputSchema<Output extends object> = Schema.Codec<Output, unknown> | StandardSchema<unknown, Output>

/** What a kind's requests can be described with: a struct of Effect Schema, or any Standard Schema. */
export type DescribesRequest =
  | { readonly fields: Readonly<Record<string, unknown>>; readonly Type: unknown; readonly Encoded: unknown }
  | StandardSchema

type Run<Request, Output> = (attempt: AttemptContext<Request>) => Effect.Effect<AttemptResult<Output>, AttemptError>

/** What callers submit for a request that is described like this. */
type InputOfSchema<S> = S extends { readonly Encoded: infer Encoded }
  ? Encoded
  : S extends StandardSchema<infer Input, unknown>
    ? Input
    : never
/** What attempts work with. */
export type RequestOfSchema<S> = S extends { readonly Type: infer Type }
  ? Type
  : S extends StandardSchema<unknown, infer Output>
    ? Output
    : never

/** The types of a kind that is defined with these. */
export interface DefinedTypes<
  S,
  Output extends object,
  File extends string,
  Provider extends ProviderName,
  OrProvider extends ProviderName,
> extends KindTypes {
  readonly input: InputOfSchema<S>
  readonly request: RequestOfSchema<S>
  readonly output: Simplify<Output & { readonly [Name in File]: FileRef }>
  readonly needs: { readonly all: Provider; readonly or: OrProvider }
}
type Simplify<T> = { readonly [Key in keyof T]: T[Key] }

/** What a kind is defined with, apart from its attempts. */
export interface KindDefinition<
  Name extends string,
  S,
  Output extends object,
  File extends string,
  Provider extends ProviderName,
  OrProvider extends ProviderName,
> {
  readonly name: Name
  /** A positive integer, default 1. */
  readonly version?: number
  /** Between 1, the default, and `version`. */
  readonly readsFrom?: number
  /** Default: the kind's name with `.create` behind it. */
  readonly keyScope?: KeyScope
  /** A struct of Effect Schema, or any Standard Schema of an object that validates without waiting. */
  readonly request: S
  /** The output without its files. What an attempt brings is checked; without it, any JSON object is taken. */
  readonly output?: OutputSchema<Output>
  /** Names of the files that a finished job has, all of them: lower-case letters and digits. None by default. */
  readonly files?: ReadonlyArray<File>
  /** Fields of the request that are not the caller's data: they stay, as `kept`, when the rest is erased. None by default. */
  readonly keeps?: ReadonlyArray<string & keyof InputOfSchema<S>>
  /** The price live jobs are charged by; without one they cost nothing. */
  readonly price?: string
  /** What they are charged for, besides the meters of the built-in kinds. */
  readonly meters?: ReadonlyArray<Meter>
  /** Switches that must be on for live jobs. None by default. */
  readonly switches?: ReadonlyArray<SwitchName>
  /** The provider ports its steps use: who lacks one cannot run the kind. None by default. */
  readonly providers?: ReadonlyArray<Provider>
  /** Ports that can serve the kind in place of those, and do so where they are there. */
  readonly orProviders?: ReadonlyArray<OrProvider>
  readonly limits?: KindLimits
  readonly uploadOf?: (request: RequestOfSchema<S>) => string
}

/**
 * Defines a job kind. Raise `version` whenever stored requests of the new code could not be run by the old code: while a new
 * release is rolled out, workers of the old one leave such jobs to the others. Raise `readsFrom` (default 1) once the code
 * for older requests is gone and none of them is unfinished any more; what is left of them waits until it times out.
 */
export const JobKind = <
  const Name extends string,
  S extends DescribesRequest,
  Output extends object = JsonObject,
  const File extends string = never,
  const Provider extends ProviderName = never,
  const OrProvider extends ProviderName = never,
>(
  definition: KindDefinition<Name, S, Output, File, Provider, OrProvider> & {
    readonly run: Run<RequestOfSchema<S>, NoInfer<Output>>
    /** Makes attempts of sandbox jobs in place of `run`, for kinds that ask others than provider ports. */
    readonly sandbox?: Run<RequestOfSchema<S>, NoInfer<Output>>
  },
): JobKind<Name, DefinedTypes<S, Output, File, Provider, OrProvider>> => {
  type Request = RequestOfSchema<S>
  const { orProviders, providers = [], run, sandbox = run, uploadOf } = definition
  const schema: RequestSchema<Request> = definition.request as never
  return {
    name: nameOf(definition.name),
    "~kind": undefined as never,
    ...versionsOf(definition),
    keyScope: definition.keyScope ?? `${definition.name}.create`,
    request: schema,
    reader: requestReader(schema),
    keeps: definition.keeps ?? [],
    files: filesOf(definition.files ?? []),
    meters: [...builtInMeters, ...(definition.meters ?? [])],
    limits: limitsOf(definition.limits ?? {}),
    gate: { price: definition.price ?? null, switches: definition.switches ?? [], kind: definition.name },
    providers: [...(orProviders === undefined ? [] : [orProviders]), providers],
    uploadOf: (request: Request) => (uploadOf?.(request) as UploadId | undefined) ?? null,
    outputProblem: outputCheck(definition.output),
    // Checked against what the kind promises before it is kept.
    run: (attempt: AttemptContext<Request>) =>
      (attempt.mode === "sandbox" ? sandbox : run)(attempt) as Effect.Effect<AttemptResult, AttemptError>,
  }
}

/** Stores write a kind and its version as one word, with this sign between them. */
const nameOf = <Name extends string>(name: Name): Name => {
  if (name === "" || name.includes("@")) throw new TypeError(`"${name}" cannot be the name of a job kind`)
  return name
}

/** They are part of blob keys, which every blob store must be able to tell apart. */
const filesOf = (names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const wrong = names.find((name) => !/^[0-9a-z]{1,64}$/.test(name))
  if (wrong !== undefined)
    throw new TypeError(`the name of a file is made of lower-case letters and digits: "${wrong}"`)
  return names
}

const limitsOf = (limits: KindLimits): KindLimits => {
  for (const [name, value] of Object.entries(limits) as ReadonlyArray<[string, number]>)
    if (!(value > 0) || (!name.endsWith("Ms") && !Number.isSafeInteger(value)))
      throw new TypeError(`${name} of a job kind must be a number above 0, not ${value}`)
  return limits
}

const outputCheck = (schema: object | undefined): ((output: JsonObject) => string | undefined) => {
  if (schema === undefined) return () => undefined
  if (!isStandardSchema(schema)) {
    const decode = Schema.decodeUnknownResult(schema as Schema.Codec<unknown, unknown>)
    return (output) => (Result.isSuccess(decode(output)) ? undefined : "the output does not decode")
  }
  return (output) => {
    const result = schema["~standard"].validate(output)
    if (result instanceof Promise) throw new TypeError("the schema of an output must not be asynchronous")
    return result.issues === undefined ? undefined : "the output does not validate"
  }
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

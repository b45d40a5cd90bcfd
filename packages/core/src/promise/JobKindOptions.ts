import type { JobMode } from "../domain/Access.ts"
import type { WarningCode } from "../domain/ErrorCode.ts"
import type { SwitchName } from "../domain/Gate.ts"
import type { JobId } from "../domain/Ids.ts"
import type { Json } from "../domain/Json.ts"
import type { FileRef, Kind } from "../kinds/KindTypes.ts"
import type { StandardSchema } from "../kinds/StandardSchema.ts"
import type { ProviderName } from "../ports/ProviderName.ts"
import type { AsyncAnswers, AsyncAudio, AsyncFile, AsyncRequests } from "./AsyncProviders.ts"

/** What requests and outputs are described with: any Standard Schema (Zod, Valibot, ArkType, …), or a struct of Effect Schema. */
export type AnySchema =
  | StandardSchema
  | { readonly fields: Readonly<Record<string, unknown>>; readonly Type: unknown; readonly Encoded: unknown }

/** What a caller submits for what is described like this. */
export type SchemaInput<S> = S extends { readonly Encoded: infer Encoded }
  ? Encoded
  : S extends StandardSchema<infer Input, unknown>
    ? Input
    : never
/** What comes out of reading it. */
export type SchemaOutput<S> = S extends { readonly Type: infer Type }
  ? Type
  : S extends StandardSchema<unknown, infer Output>
    ? Output
    : never

/** The uploaded file of a job, measured. */
export interface AttemptAudio extends AsyncAudio {
  /** What the caller declared, in seconds. */
  readonly declaredSeconds: number
}

/** What an attempt has in hand. */
export interface Attempt<
  Request = unknown,
  Provider extends ProviderName = ProviderName,
  File extends string = string,
> {
  readonly request: Request
  /** The version of the kind the request was made for. */
  readonly kindVersion: number
  readonly mode: JobMode
  readonly jobId: JobId
  /** 1-based. */
  readonly attempt: number
  /** Attempts that have failed before this one. */
  readonly failures: number
  /** Aborted when the job was canceled or taken over, or the worker stops. Give it to `fetch`. */
  readonly signal: AbortSignal
  /** Asks a provider of the job's mode: within its bounds, and what it answers is checked. */
  readonly ask: { readonly [Name in Provider]: (request: AsyncRequests[Name]) => Promise<AsyncAnswers[Name]> }
  /** Whether there is such a provider, for kinds that more than one set of them can serve. */
  readonly has: (provider: ProviderName) => boolean
  /** The upload this job consumes, measured and within limits. Fails the job where the kind has none. */
  readonly audio: () => Promise<AttemptAudio>
  /**
   * A named step. Before it the operator's switches are looked at and whether the job is still this attempt's; its value is
   * kept, so that a later attempt gets it without running the step again. Whatever costs money or must not happen twice
   * belongs into one: it is made again only if its process dies before the value is kept.
   */
  readonly step: <Value extends Json>(name: string, work: (signal: AbortSignal) => Promise<Value>) => Promise<Value>
  /** A step that makes one of the job's files. The file is durable when it resolves; a later attempt makes it again. */
  readonly file: (name: File, work: (signal: AbortSignal) => Promise<AsyncFile>) => Promise<void>
}

/** What a finished attempt hands over. */
export interface AttemptOutcome<Output> {
  readonly output: Output
  /** What a live job is charged for: whole numbers, not below 0, under the kind's meters. Nothing by default. */
  readonly usage?: Readonly<Record<string, number>>
  readonly warningCode?: WarningCode
}

/** What a kind of job is made of. */
export interface JobKindOptions<
  Name extends string,
  S extends AnySchema,
  Output extends object,
  File extends string,
  Provider extends ProviderName,
  OrProvider extends ProviderName,
> {
  /** What callers see as `type`. Written in the store: never changes. */
  readonly name: Name
  /** The request. A schema that validates without waiting; a job's stored request is read with it once more by each attempt. */
  readonly request: S
  /** The output without its files. What an attempt brings is checked; without it, any JSON object is taken. */
  readonly output?: StandardSchema<unknown, Output> | { readonly Type: Output; readonly Encoded: unknown }
  /** Names of the files that a finished job has, all of them: lower-case letters and digits. None by default. */
  readonly files?: ReadonlyArray<File>
  /** One attempt. What it throws fails the attempt, which is made again up to `limits.maxFailures` times; `jobFailed` says otherwise. */
  readonly run: (
    attempt: Attempt<SchemaOutput<S>, Provider | OrProvider, File>,
  ) => Promise<AttemptOutcome<NoInfer<Output>>>
  /** Makes attempts of sandbox jobs in place of `run`, for kinds that ask others than providers. */
  readonly sandbox?: (
    attempt: Attempt<SchemaOutput<S>, Provider | OrProvider, File>,
  ) => Promise<AttemptOutcome<NoInfer<Output>>>
  /** A positive integer, default 1. Raise it whenever workers of the old code could not run requests of the new. */
  readonly version?: number
  /** The oldest version whose stored requests can still be run, default 1. */
  readonly readsFrom?: number
  /** The scope an API key must have, default the kind's name with `.create` behind it. */
  readonly keyScope?: string
  /** Fields of the request that are not the caller's data: they stay, as `kept`, when the rest is erased. None by default. */
  readonly keeps?: ReadonlyArray<string & keyof SchemaInput<S>>
  /** The price live jobs are charged by; without one they cost nothing. */
  readonly price?: string
  /** What they are charged for, besides the meters of the built-in kinds. */
  readonly meters?: ReadonlyArray<string>
  /** Switches that must be on for live jobs. None by default. */
  readonly switches?: ReadonlyArray<SwitchName>
  /** The providers it asks: who lacks one cannot run the kind. None by default. */
  readonly providers?: ReadonlyArray<Provider>
  /** Providers that can serve the kind in place of those, and do so where they are there. */
  readonly orProviders?: ReadonlyArray<OrProvider>
  readonly limits?: {
    /** Milliseconds of waiting, all of it together, then `queue_timeout`. */
    readonly queueLimitMs?: number
    /** Milliseconds of running, all of it together, then `job_timeout`. */
    readonly runLimitMs?: number
    /** Attempts that may fail, default 3. */
    readonly maxFailures?: number
    /** Jobs of the kind in hand at once, in the whole installation and by mode. */
    readonly concurrency?: number
  }
  /** The identifier of the upload that a request consumes. */
  readonly uploadOf?: (request: SchemaOutput<S>) => string
}

/** The kind that comes of it. */
export type DefinedKind<
  Name extends string,
  S extends AnySchema,
  Output extends object,
  File extends string,
  Provider extends ProviderName,
  OrProvider extends ProviderName,
> = Kind<
  Name,
  {
    readonly input: SchemaInput<S>
    readonly request: SchemaOutput<S>
    readonly output: { readonly [Key in keyof (Output & Files<File>)]: (Output & Files<File>)[Key] }
    readonly needs: { readonly all: Provider; readonly or: OrProvider }
  }
>
type Files<File extends string> = { readonly [Name in File]: FileRef }

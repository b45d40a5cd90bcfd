import type { JobMode } from "../domain/Access.ts"
import type { WarningCode } from "../domain/ErrorCode.ts"
import type { JobId } from "../domain/Ids.ts"
import type { Json } from "../domain/Json.ts"
import type { AnySchema, DefinedTypes, KindDefinition, SchemaOutput } from "../kinds/KindDefinition.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import type { AnswerOf, NameOf, ProviderName, ProviderRef } from "../providers/builtInPorts.ts"
import type { AsyncAudio, AsyncFile, AsyncRequest } from "./AsyncProviders.ts"

/** The uploaded file of a job, measured. */
export interface AttemptAudio extends AsyncAudio {
  /** What the caller declared, in seconds. */
  readonly declaredSeconds: number
}

/** What `run` works with. */
export interface Attempt<Request = unknown, Provider extends ProviderRef = ProviderName, File extends string = string> {
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
  /** The providers of the job's mode. Calls stay within the provider's limits, and answers are checked. */
  readonly ask: {
    readonly [Each in Provider as NameOf<Each>]: (request: AsyncRequest<Each>) => Promise<AnswerOf<Each>>
  }
  /** Whether a provider is there, for kinds that more than one set of providers can serve. */
  readonly has: (provider: ProviderName | NameOf<Provider>) => boolean
  /** The upload this job consumes, measured and within limits. Fails the job where the kind has none. */
  readonly audio: () => Promise<AttemptAudio>
  /**
   * A named step. Before it the operator's switches are looked at and whether the job is still this attempt's; its value is
   * kept, so that a later attempt gets it without running the step again. Whatever costs money or must not happen twice
   * belongs into one: it is made again only if its process dies before the value is kept.
   *
   * Each step of an attempt needs a name of its own, for example `item-1`, `item-2` in a loop. A name that is used twice fails
   * the job at once and is named in the log, unless its first use failed: the same step may be tried again.
   */
  readonly step: <Value extends Json>(name: string, work: (signal: AbortSignal) => Promise<Value>) => Promise<Value>
  /** A step that makes one of the job's files. The file is durable when it resolves; a later attempt makes it again. Written twice in one attempt, it fails the job. */
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
  Provider extends ProviderRef,
  OrProvider extends ProviderRef,
  Upload extends string = never,
> extends KindDefinition<Name, S, Output, File, Provider, OrProvider, Upload> {
  /** One attempt. What it throws fails the attempt, which is made again up to `limits.maxFailures` times; `jobFailed` says otherwise. */
  readonly run: (
    attempt: Attempt<SchemaOutput<S>, Provider | OrProvider, File>,
  ) => Promise<AttemptOutcome<NoInfer<Output>>>
  /** Makes attempts of sandbox jobs in place of `run`, for kinds that ask others than providers. */
  readonly sandbox?: (
    attempt: Attempt<SchemaOutput<S>, Provider | OrProvider, File>,
  ) => Promise<AttemptOutcome<NoInfer<Output>>>
}

/** The kind that comes of it. */
export type DefinedKind<
  Name extends string,
  S extends AnySchema,
  Output extends object,
  File extends string,
  Provider extends ProviderRef,
  OrProvider extends ProviderRef,
  Upload extends string = never,
> = Kind<Name, DefinedTypes<S, Output, File, Provider, OrProvider, Upload>>

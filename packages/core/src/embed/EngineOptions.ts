import type { JobMode } from "../domain/Access.ts"
import type { ErrorCode } from "../domain/ErrorCode.ts"
import type { JobId, ProjectId } from "../domain/Ids.ts"
import type { Json } from "../domain/givenValues.ts"
import type { GivenSettings } from "../engine/EngineSettings.ts"
import type { Kind, TypesOf } from "../kinds/KindDefinition.ts"
import type { BlobAdapter, ProbeAdapter, StoreAdapter, TelemetryAdapter } from "../ports/adapters.ts"
import type { NameOf, ProviderName, ProviderRef } from "../providers/builtInPorts.ts"
import type { AnyProvider } from "./AsyncProviders.ts"
import type { BuiltInKind } from "./jobKind.ts"
import type { JobResult, OnFinished } from "./JobResult.ts"

/**
 * Carries values from `submit` to `run`: `{ capture: () => requestStorage.getStore(), restore: (store, run) =>
 * requestStorage.run(store, run) }`. The values are stored with the job and stay when its data is erased: no personal data.
 * Other values of callers, such as those of the call that happened to wake the worker, do not reach the functions of a kind.
 */
export interface CallerContext {
  /** Called by each submission. Returns JSON of up to 4,096 characters, or `undefined` for a job without context. */
  readonly capture: () => Json | undefined
  /** Called for each attempt of a job that has a context. Calls `run` and returns what it returned. */
  readonly restore: <A>(value: never, run: () => A) => A
}

/** A log entry. Contains no prompt, transcript or secret, unless the messages of errors are logged and quote one. */
export interface LogEntry {
  readonly level: "debug" | "info" | "warning" | "error"
  readonly message: string
  /** Context of the message: `jobId`, `attempt`, … */
  readonly fields: Readonly<Record<string, unknown>>
  readonly at: Date
}

/** Options of the log. */
export interface LogOptions {
  /**
   * Logs the messages of errors that attempts and `onFinished` throw, which may quote requests. By default only with
   * `NODE_ENV=development`; otherwise the log has the class and the stack.
   */
  readonly messages?: boolean
  /** Receives log entries; by default, warnings and errors go to standard error. */
  readonly to?: (entry: LogEntry) => void
}

/** A failed attempt, as `onAttemptFailed` gets it beside the error. */
export interface AttemptFailure {
  readonly jobId: JobId
  readonly projectId: ProjectId
  readonly kind: string
  readonly mode: JobMode
  /** 1-based. */
  readonly attempt: number
  readonly errorCode: ErrorCode
  /** Milliseconds until the retry, at the earliest; `undefined` if the job has failed. */
  readonly retryInMs: number | undefined
  /** Duration of the attempt, in milliseconds. */
  readonly durationMs: number
}

/** The parts of an engine. */
export interface EngineParts<K extends Kind, Store extends StoreAdapter, Working extends boolean> {
  readonly store: Store
  /** Where files are stored. Only kinds with files or an upload need it, and the built-in ones. */
  readonly blobs?: BlobAdapter | undefined
  /** The job kinds of the engine: your own, and those of `builtInKinds()`. A program that only operates jobs passes `[]`. */
  readonly kinds: ReadonlyArray<K>
  /** Measures uploaded audio. Without one, the declared duration counts. */
  readonly probe?: ProbeAdapter
  readonly settings?: GivenSettings
  /**
   * The mode of jobs, uploads and schedules without one of their own. By default `sandbox`, or `live` if there are only live
   * providers. A kind without providers, price and switches runs the same in both.
   */
  readonly mode?: JobMode
  /** `false` for a process that only submits and reads. By default, jobs run in this process. */
  readonly worker?: Working
  /** `false` delays the worker until `start` is called. By default, it runs as soon as the engine is created. */
  readonly autoStart?: boolean
  /** Receives log entries. By default, warnings and errors go to standard error; `false` turns the log off. */
  readonly log?: false | ((entry: LogEntry) => void) | LogOptions
  /**
   * Receives what each failed attempt of this process threw, for an error tracker: `onAttemptFailed: (error, { jobId }) =>
   * Sentry.captureException(error, { tags: { jobId } })`. Messages of foreign code may quote a request. Called once the failure is
   * stored; an exception in it is logged and has no other effect. Not called for jobs that fail without an attempt: canceled, too
   * late, or out of workers.
   */
  readonly onAttemptFailed?: (error: unknown, failure: AttemptFailure) => void
  /** Carries values of the submitting program, such as those of an `AsyncLocalStorage`, to the attempts of the job. */
  readonly context?: CallerContext
  /**
   * Reports traces and metrics: `openTelemetry(api)` of `@kiln/core/opentelemetry`. Nothing is traced or measured without it, and
   * `undefined` is the same as leaving it out.
   */
  readonly telemetry?: TelemetryAdapter | undefined
  /**
   * Called at least once for each finished job of kinds that have no `onFinished` of their own, also after a crash. See
   * `OnFinished`. Processes that only submit need it too: a job gets the call if the engine that accepts it has one.
   */
  readonly onFinished?: NoInfer<OnFinished<Ended<K>>>
}

/** One type for each kind, so that `kind` tells which output the job has. */
type Ended<K extends Kind> = K extends Kind ? Extract<JobResult<K>, { readonly finishedAt: Date }> : never

/** All of these providers. */
type Whole<Refs extends ProviderRef> = { readonly [Ref in Refs as NameOf<Ref>]: AnyProvider<Ref> }

type Needed<K extends Kind> = [TypesOf<K>["needs"]["or"]] extends [never]
  ? Whole<TypesOf<K>["needs"]["all"]>
  : Whole<TypesOf<K>["needs"]["all"]> | Whole<TypesOf<K>["needs"]["or"]>

type Boxed<K extends Kind> = K extends Kind ? { readonly box: Needed<K> } : never
type Together<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never

/** Providers that serve all of these kinds. Further providers are allowed. */
export type ProvidersFor<K extends Kind> =
  Together<Boxed<K>> extends { readonly box: infer Box } ? WithMore<Box> : never

/** A single type, so that the compiler's message begins with the missing provider. */
type WithMore<Box> = Box extends unknown
  ? Flat<Box & { readonly [Name in Exclude<ProviderName, keyof Box>]?: AnyProvider<Name> | undefined }>
  : never
type Flat<Parts> = { readonly [Name in keyof Parts]: Parts[Name] }

/**
 * Providers for sandbox jobs and for live jobs: at least one of the two, and each complete. A sandbox job never reaches `live`.
 */
export type ModeProviders<Providers> =
  | { readonly sandbox: Providers; readonly live?: Providers }
  | { readonly live: Providers; readonly sandbox?: Providers }

type ProvidersOption<K extends Kind, Working extends boolean> = Working extends false
  ? { readonly providers?: undefined }
  : {} extends ProvidersFor<K>
    ? { readonly providers?: ModeProviders<ProvidersFor<K>> }
    : { readonly providers: ModeProviders<ProvidersFor<K>> }

/** The kinds of these that read or write files. Of a kind whose types say nothing about files, it is not known. */
type WithFiles<K extends Kind> = K extends Kind
  ? TypesOf<K> extends { readonly file: infer File; readonly upload: infer Upload }
    ? [File | Upload] extends [never]
      ? never
      : K
    : K
  : never

type BlobsOption<K extends Kind> = [WithFiles<K>] extends [never] ? unknown : { readonly blobs: BlobAdapter }

/** The options of `createEngine`. */
export type EngineOptions<
  K extends Kind = BuiltInKind,
  Store extends StoreAdapter = StoreAdapter,
  Working extends boolean = true,
> = EngineParts<K, Store, Working> & BlobsOption<K> & ProvidersOption<K, Working>

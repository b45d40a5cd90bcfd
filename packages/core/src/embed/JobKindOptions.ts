import type { BuiltInErrorCode } from "../domain/ErrorCode.ts"
import type { JsonObject } from "../domain/givenValues.ts"
import type { JsonCheck } from "../kinds/JsonTypes.ts"
import type {
  AnySchema,
  BatchOptions,
  DefinedTypes,
  Kind,
  KindDefinition,
  OutputOf,
  Running,
  SchemaOutput,
} from "../kinds/KindDefinition.ts"
import type { ProviderRef } from "../providers/builtInPorts.ts"
import type { AnyOutput, Attempt, AttemptOutcome, BatchOutcome, JobBatch } from "./AttemptTypes.ts"
import type { FinishedJob, ModeFieldsOf, OnFinished } from "./JobResult.ts"

/** The resolved value of `run`. A kind that declares no output may return any, or nothing. */
type RunResult<Output, MeterName extends string, Returned> = AnyOutput extends Output
  ? [Returned] extends [AttemptOutcome<AnyOutput, MeterName> | undefined | void]
    ? ReturnedCheck<Returned> & Returned
    : AttemptOutcome<AnyOutput, MeterName>
  : AttemptOutcome<Output, MeterName>

/** The output of a kind: as it declares it, or else as its `run` returns it. */
export type OutputOfRun<Output, Returned> = AnyOutput extends Output
  ? unknown extends Returned
    ? JsonObject
    : EachOutput<Returned>
  : Output
type EachOutput<Returned> = Returned extends { readonly output: infer Each extends object } ? Each : JsonObject

/** Says which part of the returned output is not JSON. */
type ReturnedCheck<Returned> = JsonCheck<Returned extends { readonly output: infer Each } ? Each : undefined, "output">

/** The definition of a job kind. */
export interface JobKindOptions<
  Name extends string,
  S extends AnySchema,
  Output extends object,
  File extends string,
  Provider extends ProviderRef,
  OrProvider extends ProviderRef,
  Upload extends string = never,
  Code extends string = never,
  Switch extends string = never,
  MeterName extends string = never,
  Returned = unknown,
  Chunk = never,
  BatchOf extends BatchOptions | undefined = undefined,
> extends KindDefinition<Name, S, Output, File, Provider, OrProvider, Upload, Code, Switch, MeterName, Chunk> {
  /**
   * Lets one call of `run` run several jobs, such as the texts of one call of an embedding model. `run` gets `jobs` then, and returns a
   * list with a result or an error for each, in their order. Each job keeps its own attempt, retries and charge.
   */
  readonly batch?: BatchOf
  /**
   * Runs one attempt, or with `batch` those of several jobs. An error fails the attempt, and the job is retried until `limits.maxFailures`
   * attempts have failed. Throw `failure(code, options)` to choose the error code and whether to retry.
   */
  readonly run: (
    attempt: Running<
      Attempt<SchemaOutput<S>, Provider | OrProvider, File, Code, NoInfer<Chunk>>,
      JobBatch<SchemaOutput<S>, Code>,
      BatchOf
    >,
  ) => Promise<
    Running<
      RunResult<NoInfer<Output>, NoInfer<MeterName>, Returned>,
      ReadonlyArray<BatchOutcome<NoInfer<Output>, NoInfer<MeterName>>>,
      BatchOf
    >
  >
  /** Replaces `run` for sandbox jobs, for kinds that call services without a provider port. */
  readonly sandbox?: (
    attempt: Running<
      Attempt<SchemaOutput<S>, Provider | OrProvider, File, Code, NoInfer<Chunk>>,
      JobBatch<SchemaOutput<S>, Code>,
      BatchOf
    >,
  ) => Promise<
    Running<
      AttemptOutcome<NoInfer<OutputOfRun<Output, Returned>>, NoInfer<MeterName>>,
      ReadonlyArray<BatchOutcome<NoInfer<Output>, NoInfer<MeterName>>>,
      BatchOf
    >
  >
  /**
   * Called at least once for each finished job of the kind, by any process with a worker that has the kind, also after a crash.
   * Jobs that were submitted before the kind had it get no call. See `OnFinished`. Replaces the engine's.
   */
  readonly onFinished?: OnFinished<
    FinishedJob<
      NoInfer<Name>,
      NoInfer<OutputOf<DefinedKind<Name, S, OutputOfRun<Output, Returned>, File, Provider, OrProvider>>>,
      NoInfer<BuiltInErrorCode | Code>
    > &
      ModeFieldsOf<DefinedKind<NoInfer<Name>, S, Output, File, Provider, OrProvider, Upload, Code, Switch, MeterName>>
  >
  /** Whether `onFinished` gets the requests of failed jobs. Default `false`: a request may be personal. */
  readonly requestOnFailure?: boolean
}

/** The kind that `jobKind` returns. */
export type DefinedKind<
  Name extends string,
  S extends AnySchema,
  Output extends object,
  File extends string,
  Provider extends ProviderRef,
  OrProvider extends ProviderRef,
  Upload extends string = never,
  Code extends string = never,
  Switch extends string = never,
  MeterName extends string = never,
  Chunk = never,
> = Kind<Name, DefinedTypes<S, Output, File, Provider, OrProvider, Upload, Code, Switch, MeterName, Chunk>>

/** The `run` of any kind that returns promises. */
export type AsyncRun = (attempt: Attempt) => Promise<AttemptOutcome<JsonObject>>

import type * as Effect from "effect/Effect"
import { type Json, type JsonObject, meters as builtInMeters } from "../domain/index.ts"
import type { Gate } from "../domain/Gate.ts"
import type { KeyScope } from "../domain/Access.ts"
import type { Meter, Usage } from "../domain/Billing.ts"
import { portOf } from "../providers/builtInPorts.ts"
import type { ProviderPort, ProviderRef } from "../providers/index.ts"
import { checkDefinition, fileDescriptionsOf, fileLimitsOf, namesOf } from "./checkDefinition.ts"
import type { AttemptContext, AttemptError, AttemptResult } from "./AttemptContext.ts"
import { alone, type BatchedJob, type BatchedResult, type KindBatch } from "./JobBatch.ts"
import type {
  AnySchema,
  BatchOptions,
  DefinedTypes,
  Kind,
  KindDefinition,
  KindLimits,
  KindTypes,
  RetryPolicy,
  Running,
  SchemaOutput,
} from "./KindDefinition.ts"
import { readBySchema, type RequestReader, requestReader, type RequestSchema } from "./readBySchema.ts"
import type { ValueSchema } from "./StandardSchema.ts"

/** The complete definition of one kind of job. Engine, worker and stores use nothing else. */
export interface JobKind<Name extends string = string, Types extends KindTypes = KindTypes> extends Kind<Name, Types> {
  /** The version of the requests that this code accepts, from 1. */
  readonly version: number
  /** The oldest version of stored requests this code can run, and with it every one up to `version`. */
  readonly readsFrom: number
  /** The scope a key must have to create, read and erase such jobs. */
  readonly keyScope: KeyScope
  /** One sentence for callers; `undefined` if the kind has none. */
  readonly description: string | undefined
  /** A valid request; `undefined` if the kind has none. */
  readonly example: JsonObject | undefined
  /** The fields of a request, with their limits. */
  readonly request: RequestSchema<Types["request"]>
  /** Decodes requests, from callers and from the store. */
  readonly reader: RequestReader<Types["request"]>
  /** Fields of the request that are not the caller's data and stay when that data is erased. */
  readonly metadata: ReadonlyArray<string>
  /** The output without its files; `undefined` if any JSON object is accepted. */
  readonly output: object | undefined
  /** Names of the files of a finished job. */
  readonly files: ReadonlyArray<string>
  /** Descriptions of files by name, for the files that have one. */
  readonly fileDescriptions: Readonly<Record<string, string>>
  /** Maximum bytes of files by name, for the files that state one. */
  readonly fileLimits: Readonly<Record<string, number>>
  /** The error codes that the kind declares, beside the built-in ones. */
  readonly errorCodes: ReadonlyArray<string>
  /** The meters that jobs of the kind may report. A price of the kind must name all of them. */
  readonly meters: ReadonlyArray<Meter>
  /**
   * Returns the most that a job with this request can use, by meter; `null` if the kind does not state it. Throws `TypeError` for
   * an invalid maximum.
   */
  maxUsage(request: Types["request"]): Usage | null
  readonly limits: KindLimits
  readonly retry: RetryPolicy
  /** The prerequisites of live jobs of this kind. It requires no live worker: the caller of `createJob` decides that. */
  readonly gate: Gate
  /** Sets of provider ports, by name, each of which can serve the kind. The first complete set is used. */
  readonly providers: ReadonlyArray<ReadonlyArray<string>>
  /** The declarations of all those ports. */
  readonly ports: ReadonlyArray<ProviderPort>
  /** The field of the request that names the upload a job consumes; `undefined` if the kind takes none. */
  readonly upload: string | undefined
  /** Returns what is wrong with an output; `undefined` if it is valid. */
  outputProblem(output: JsonObject): string | undefined
  /** Returns what is wrong with a chunk; `undefined` if it is valid. Missing in kinds without chunks. */
  readonly chunkProblem: ((chunk: Json) => string | undefined) | undefined
  /** Called with each finished job by an embedded engine, which knows its argument; `undefined` if the kind does not declare it. */
  readonly onFinished: ((finished: never) => unknown) | undefined
  /** Whether `onFinished` gets the requests of failed jobs. */
  readonly requestOnFailure: boolean
  /** Present if one call runs several jobs: the worker calls its `run` then, and not that of the kind. */
  readonly batch: KindBatch | undefined
  /** Runs one attempt. It is interrupted when the claim is lost or the worker stops. */
  run(attempt: AttemptContext<Types["request"]>): Effect.Effect<AttemptResult, AttemptError>
}

type Run<Request, Output, Ref extends ProviderRef, Batch> = (
  attempt: Running<AttemptContext<Request, Ref>, ReadonlyArray<BatchedJob<Request>>, Batch>,
) => Effect.Effect<Running<AttemptResult<Output>, ReadonlyArray<BatchedResult<Output>>, Batch>, AttemptError>

/**
 * Defines a job kind. Raise `version` whenever stored requests of the new code could not be run by the old code: while a new
 * release is rolled out, workers of the old one leave such jobs to the others. Raise `readsFrom` (default 1) once the code for
 * older requests is gone and their jobs are finished; unfinished ones wait until they time out.
 */
export const JobKind = <
  const Name extends string,
  S extends AnySchema,
  Output extends object = JsonObject,
  const File extends string = never,
  const Provider extends ProviderRef = never,
  const OrProvider extends ProviderRef = never,
  const Upload extends string = never,
  const Code extends string = never,
  const Switch extends string = never,
  const MeterName extends Meter = never,
  Chunk = never,
  const Batch extends BatchOptions | undefined = undefined,
>(
  definition: KindDefinition<Name, S, Output, File, Provider, OrProvider, Upload, Code, Switch, MeterName, Chunk> & {
    /** Lets one call of `run` run several jobs: it gets a list of them, and returns a list of their exits. */
    readonly batch?: Batch
    readonly run: Run<SchemaOutput<S>, NoInfer<Output>, NoInfer<Provider | OrProvider>, Batch>
    /** Replaces `run` for sandbox jobs, for kinds that call services without a provider port. */
    readonly sandbox?: Run<SchemaOutput<S>, NoInfer<Output>, NoInfer<Provider | OrProvider>, Batch>
    readonly onFinished?: (finished: never) => unknown
    readonly requestOnFailure?: boolean
  },
): JobKind<Name, DefinedTypes<S, Output, File, Provider, OrProvider, Upload, Code, Switch, MeterName, Chunk>> => {
  type Request = SchemaOutput<S>
  checkDefinition(definition)
  const { batch, files = [], orProviders, providers = [], version = 1, readsFrom = 1 } = definition
  const run = definition.run as (given: unknown) => Effect.Effect<never, AttemptError>
  const sandbox = (definition.sandbox ?? run) as typeof run
  const runIn = (mode: "live" | "sandbox") => (mode === "sandbox" ? sandbox : run)
  const schema: RequestSchema<Request> = definition.request as never
  return {
    name: definition.name,
    "~kind": undefined as never,
    version,
    readsFrom,
    keyScope: definition.keyScope ?? `${definition.name}.create`,
    description: definition.description,
    example: definition.example as JsonObject | undefined,
    request: schema,
    reader: requestReader(schema),
    metadata: definition.metadata ?? [],
    output: definition.output,
    files: namesOf(files),
    fileDescriptions: fileDescriptionsOf(files),
    fileLimits: fileLimitsOf(files),
    errorCodes: namesOf(definition.errorCodes ?? []),
    meters: metersOf(definition),
    maxUsage: maxUsageOf(definition),
    limits: definition.limits ?? {},
    retry: definition.retry ?? {},
    gate: {
      price: definition.price ?? null,
      meters: definition.meters ?? [],
      switches: definition.switches ?? [],
      liveWorker: null,
    },
    providers: [...(orProviders === undefined ? [] : [orProviders]), providers].map((refs) => refs.map(nameOfRef)),
    ports: [...(orProviders ?? []), ...providers].map(portOf),
    upload: definition.upload,
    outputProblem: schemaCheck(definition.output, "output") ?? (() => undefined),
    chunkProblem: schemaCheck(definition.chunk, "chunk"),
    onFinished: definition.onFinished,
    requestOnFailure: definition.requestOnFailure === true,
    batch: batch && { ...batch, run: (mode, jobs) => runIn(mode)(jobs) },
    // The worker's context has every port of the kind.
    run: (attempt: AttemptContext<Request>) =>
      batch === undefined ? runIn(attempt.mode)(attempt) : alone(attempt, runIn(attempt.mode)),
  }
}

const nameOfRef = (ref: ProviderRef): string => (typeof ref === "string" ? ref : ref.name)

/** Charged meters must be declared. A kind without a price may also report the meters of the built-in kinds. */
const metersOf = ({ meters = [], price }: { readonly price?: string; readonly meters?: ReadonlyArray<Meter> }) =>
  price === undefined ? [...builtInMeters, ...meters] : meters

const maxUsageOf =
  <Request>({
    maxUsage,
    meters = [],
    name,
  }: {
    readonly name: string
    readonly meters?: ReadonlyArray<Meter>
    readonly maxUsage?: (request: Request) => object
  }) =>
  (request: Request): Usage | null => {
    const usage = (maxUsage?.(request) ?? null) as Usage | null
    for (const [meter, quantity] of Object.entries(usage ?? {}))
      if (!meters.includes(meter) || !Number.isSafeInteger(quantity) || quantity < 0)
        throw new TypeError(
          `job kind "${name}": maxUsage.${meter} must be a meter of the kind and a non-negative integer`,
        )
    return usage
  }

const schemaCheck = (
  schema: object | undefined,
  place: "output" | "chunk",
): ((value: Json) => string | undefined) | undefined =>
  schema &&
  ((value) => {
    const read = readBySchema(schema as ValueSchema, value, place)
    return "wrongAt" in read ? `the ${place} does not match its schema: ${read.wrongAt}` : undefined
  })

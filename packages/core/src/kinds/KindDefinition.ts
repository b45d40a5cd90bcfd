import type { KeyScope } from "../domain/Access.ts"
import type { BuiltInMeter, Meter } from "../domain/Billing.ts"
import type { BuiltInErrorCode, ErrorCode } from "../domain/ErrorCode.ts"
import type { Json } from "../domain/givenValues.ts"
import type { Rate } from "../domain/Rate.ts"
import type { ProviderRef } from "../providers/builtInPorts.ts"
import type { JsonCheck } from "./JsonTypes.ts"
import type { StandardSchema } from "./StandardSchema.ts"

/** A generated file, readable while its job's data is kept. */
export interface FileRef {
  readonly id: `fil_${string}`
  /** For example `audio/mpeg`. */
  readonly mediaType: string
  readonly bytes: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** The providers a kind needs: all of one list, or all of the other if there is one. */
export interface KindNeeds {
  readonly all: ProviderRef
  readonly or: ProviderRef
}

/** The types of a kind's values. They do not exist at run time. */
export interface KindTypes {
  /** The request as a caller submits it. */ readonly input: unknown
  /** The decoded request, as an attempt receives it. */
  readonly request: unknown
  /** The output of a finished job, including its files. */
  readonly output: unknown
  readonly needs: KindNeeds
  /** The field of the request that names an upload; `never` if the kind takes none. */
  readonly upload?: string
  /** The names of the kind's files; `never` if it has none. */
  readonly file?: string
  /** The error codes that the kind declares; `never` if it declares none. */
  readonly errorCode?: string
  /** The switches that live jobs of the kind need; `never` if it needs none. */
  readonly switch?: string
  /** The meters that the kind declares; `never` if it declares none. */
  readonly meter?: string
  /** What the kind emits; `never` if it emits nothing. */
  readonly chunk?: unknown
}

/** A job kind, as seen by callers that submit its jobs. `jobKind` and `JobKind` create them. */
export interface Kind<Name extends string = string, Types extends KindTypes = KindTypes> {
  /** The `type` that callers see. */
  readonly name: Name
  /** Types only: there is no value. */
  readonly "~kind": Types
}

/** The types of a kind. */
export type TypesOf<K extends Kind> = K["~kind"]
/** The request of a kind, as a caller submits it. */
export type InputOf<K extends Kind> = TypesOf<K>["input"]
/** The error codes that a job of a kind may fail with. */
export type ErrorCodeOf<K extends Kind> =
  TypesOf<K> extends { readonly errorCode: infer Code extends string } ? BuiltInErrorCode | Code : ErrorCode
/** The chunks that jobs of a kind emit. */
export type ChunkOf<K extends Kind> = TypesOf<K> extends { readonly chunk: infer Chunk } ? Chunk : Json
/** The switches of a kind. */
export type SwitchOf<K extends Kind> =
  TypesOf<K> extends { readonly switch: infer Switch extends string } ? Switch : string
/** The usage of a job, by meter: of the kind, or, if it declares none, of the built-in kinds. */
export type UsageBy<MeterName extends string> = {
  readonly [Name in [MeterName] extends [never] ? BuiltInMeter : MeterName]?: number
}
/** The output of a finished job of a kind. */
export type OutputOf<K extends Kind> = TypesOf<K>["output"]

/** Limits of one kind, which replace the engine's. Durations in milliseconds. */
export interface KindLimits {
  /** Total waiting time of a job, after which it fails with `queue_timeout`. */
  readonly queueLimitMs?: number
  /** Total running time of a job, after which it fails with `job_timeout`. */
  readonly runLimitMs?: number
  /** Running time of one attempt. An attempt that takes longer is aborted and counts as a failure (`job_timeout`). */
  readonly attemptTimeoutMs?: number
  /** Failed attempts after which the job fails, default 3. */
  readonly maxFailures?: number
  /** Concurrent jobs of the kind in the whole installation, for each mode. */
  readonly concurrency?: number
  /** Attempts that start in a period of time in the whole installation, for each mode. Retries count, too. */
  readonly rate?: Rate
  /**
   * Retention of the data of finished jobs; 0: indefinitely. Every process that uses the store must define the kind: one that
   * does not know it applies the engine's setting to its jobs.
   */
  readonly dataRetentionMs?: number
  /** Retention of the records of finished jobs; 0: indefinitely. Deleting a record deletes its data. */
  readonly jobRetentionMs?: number
}

/**
 * How jobs of a kind are collected into batches: one call of `run` gets several. Each of them is a claimed job with its own lease, and takes
 * a slot of the worker.
 */
export interface BatchOptions {
  /** Maximum number of jobs in a batch, up to 1,000. A batch that has them starts immediately. */
  readonly size: number
  /**
   * Milliseconds for which the first job of a batch waits for others, up to 60,000. A batch starts sooner once the worker stops, or once
   * all its slots hold jobs that wait for others.
   */
  readonly waitMs: number
}

/**
 * The type for a kind without batches, or for one with them. The compiler takes `never` for a type that it does not know yet, where `run` is
 * the result of a generic function.
 */
export type Running<Single, Many, Batch> = [Batch] extends [never] ? Single : undefined extends Batch ? Single : Many

/** The retry policy for failed attempts of one kind, within `limits.maxFailures`. */
export interface RetryPolicy {
  /**
   * The delay before a retry: bounds for the exponential backoff with full jitter, which replace the engine's, or a function of
   * the number of failures so far, from 1, and of what the attempt threw. It returns milliseconds; a provider's Retry-After can
   * only lengthen them.
   */
  readonly backoff?:
    | { readonly baseMs?: number; readonly maxMs?: number }
    | ((failures: number, error: unknown) => number)
  /**
   * Returns whether to retry after an attempt that threw this; `false` fails the job immediately. Asked only if the failure would
   * be retried otherwise.
   */
  readonly retryIf?: (error: unknown) => boolean
}

/** A kind's declaration of one of its files. */
export interface FileOptions {
  /** One sentence for callers. */
  readonly description?: string
  /**
   * Maximum length in bytes, default 64 MiB. It is enforced while the file is written: a longer one fails the attempt with
   * `result_invalid`.
   */
  readonly maxBytes?: number
}

/** A schema for requests and outputs: any Standard Schema (Zod, Valibot, ArkType, …), or a struct of Effect Schema. */
export type AnySchema =
  | StandardSchema
  | { readonly fields: Readonly<Record<string, unknown>>; readonly Type: unknown; readonly Encoded: unknown }

/** The type that a caller submits for a schema. */
export type SchemaInput<S> = S extends { readonly Encoded: infer Encoded }
  ? Encoded
  : S extends StandardSchema<infer Input, unknown>
    ? Input
    : never
/** The type that a schema decodes to. */
export type SchemaOutput<S> = S extends { readonly Type: infer Type }
  ? Type
  : S extends StandardSchema<unknown, infer Output>
    ? Output
    : never

/** The types of a kind that is defined with these. */
export interface DefinedTypes<
  S,
  Output extends object,
  File extends string,
  Provider extends ProviderRef,
  OrProvider extends ProviderRef,
  Upload extends string = never,
  Code extends string = never,
  Switch extends string = never,
  MeterName extends Meter = never,
  Chunk = never,
> extends KindTypes {
  readonly input: SchemaInput<S>
  readonly request: SchemaOutput<S>
  readonly output: Simplify<Output & { readonly [Name in File]: FileRef }>
  readonly needs: { readonly all: Provider; readonly or: OrProvider }
  readonly upload: Upload
  readonly file: File
  readonly errorCode: Code
  readonly switch: Switch
  readonly meter: MeterName
  readonly chunk: Chunk
}
type Simplify<T> = { readonly [Key in keyof T]: T[Key] }

/** The options of a job kind, except for its attempts. */
export interface KindDefinition<
  Name extends string,
  S,
  Output extends object,
  File extends string,
  Provider extends ProviderRef,
  OrProvider extends ProviderRef,
  Upload extends string = never,
  Code extends string = never,
  Switch extends string = never,
  MeterName extends Meter = never,
  Chunk = never,
> {
  /** The `type` that callers see. It is stored, so it must never change. */
  readonly name: Name
  /** One sentence for callers, shown in the OpenAPI document and in the playground. */
  readonly description?: string
  /** The request. The schema must validate synchronously. Each attempt decodes the stored request with it again. */
  readonly request: JsonCheck<SchemaInput<S>, "request"> & S
  /** A valid request, for the OpenAPI document, the playground and the simulation. */
  readonly example?: SchemaInput<S>
  /** The output without its files. The output of every attempt is checked against it. If omitted, any JSON object is accepted. */
  readonly output?: JsonCheck<Output, "output"> &
    (StandardSchema<unknown, Output> | { readonly Type: Output; readonly Encoded: unknown })
  /**
   * The schema of what `run` emits while it works, which `engine.stream` reads. Each chunk is checked against it. Without one, the kind
   * emits nothing.
   */
  readonly chunk?: JsonCheck<Chunk, "chunk"> &
    (StandardSchema<unknown, Chunk> | { readonly Type: Chunk; readonly Encoded: unknown })
  /**
   * Names of all files of a finished job, in lower-case letters and digits. An object gives each a description, and a limit if it
   * needs another than 64 MiB: `{ audio: "The audio file.", video: { maxBytes: 2 ** 32 } }`. None by default.
   */
  readonly files?: ReadonlyArray<File> | Readonly<Record<File, string | FileOptions>>
  /**
   * Error codes of the kind's own, beside the built-in ones: up to 64 lower-case letters, digits and `_`. An object gives each a
   * description: `{ quota_used_up: "The account has no pages left." }`. An attempt fails with one by throwing `failure(code, …)`.
   * None by default.
   */
  readonly errorCodes?: ReadonlyArray<Code> | Readonly<Record<Code, string>>
  /** Fields of the request that are not the caller's data: they stay, as `metadata`, when the rest is erased. None by default. */
  readonly metadata?: ReadonlyArray<string & keyof SchemaInput<S>>
  /** A positive integer, default 1. Raise it whenever workers with the old code could not run new requests. */
  readonly version?: number
  /** The oldest version whose stored requests can still be run, default 1. */
  readonly readsFrom?: number
  /** The scope an API key must have; by default the kind's name followed by `.create`. */
  readonly keyScope?: KeyScope
  /** The price that live jobs are charged by. Without one they are free. */
  readonly price?: string
  /**
   * The meters that `run` reports as `usage`. A kind with a `price` must list all of them, those of the built-in kinds
   * included: live jobs are accepted once the price names each one. A kind without a price may report the built-in ones unlisted.
   */
  readonly meters?: ReadonlyArray<MeterName>
  /**
   * Returns the most that `run` can report for a request, by meter. A live job is never charged for more. Without it, or where it
   * leaves out a meter that has a price, live jobs are refused under a spend cap.
   */
  readonly maxUsage?: (request: SchemaOutput<S>) => UsageBy<NoInfer<MeterName>>
  /**
   * Switches that must be on for live jobs: built-in ones or the kind's own, with names of up to 64 lower-case letters, digits, `_`
   * and `-`. Kinds that name the same switch share it. In a new installation, all are off. None by default.
   */
  readonly switches?: ReadonlyArray<Switch>
  /**
   * The providers it calls: built-in ones by name, others by their `providerPort`. A process that lacks one does not run the
   * kind. None by default.
   */
  readonly providers?: ReadonlyArray<Provider>
  /** Alternative providers, used if all of them are available. */
  readonly orProviders?: ReadonlyArray<OrProvider>
  readonly limits?: KindLimits
  /** The retry policy. By default exponential backoff from 1 s to 60 s, with full jitter. */
  readonly retry?: RetryPolicy
  /** The field of the request that names the upload a job consumes. Without it, jobs of the kind take no upload. */
  readonly upload?: Upload & keyof SchemaInput<S>
}

import type { KeyScope } from "../domain/Access.ts"
import type { Meter } from "../domain/Billing.ts"
import type { SwitchName } from "../domain/Gate.ts"
import type { ProviderRef } from "../providers/builtInPorts.ts"
import type { FileRef, KindTypes } from "./KindTypes.ts"
import type { StandardSchema } from "./StandardSchema.ts"

/** Bounds of one kind, in place of the engine's. Durations in milliseconds. */
export interface KindLimits {
  /** All waiting of a job together, then `queue_timeout`. */
  readonly queueLimitMs?: number
  /** All running of a job together, then `job_timeout`. */
  readonly runLimitMs?: number
  /** Attempts that may fail, default 3. */
  readonly maxFailures?: number
  /** Concurrent jobs of the kind in the whole installation, for each mode. */
  readonly concurrency?: number
}

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

/** The types of a kind that is defined with these. */
export interface DefinedTypes<
  S,
  Output extends object,
  File extends string,
  Provider extends ProviderRef,
  OrProvider extends ProviderRef,
  Upload extends string = never,
> extends KindTypes {
  readonly input: SchemaInput<S>
  readonly request: SchemaOutput<S>
  readonly output: Simplify<Output & { readonly [Name in File]: FileRef }>
  readonly needs: { readonly all: Provider; readonly or: OrProvider }
  readonly upload: Upload
}
type Simplify<T> = { readonly [Key in keyof T]: T[Key] }

/** What a kind is defined with, apart from its attempts. */
export interface KindDefinition<
  Name extends string,
  S,
  Output extends object,
  File extends string,
  Provider extends ProviderRef,
  OrProvider extends ProviderRef,
  Upload extends string = never,
> {
  /** What callers see as `type`. Written in the store: never changes. */
  readonly name: Name
  /** One sentence for callers, shown in the API's description and on the page for trying it. */
  readonly description?: string
  /** The request. A schema that validates without waiting; a job's stored request is read with it once more by each attempt. */
  readonly request: S
  /** A request that is accepted, for the API's description, the page for trying it and the simulation. */
  readonly example?: SchemaInput<S>
  /** The output without its files. What an attempt brings is checked; without it, any JSON object is taken. */
  readonly output?: StandardSchema<unknown, Output> | { readonly Type: Output; readonly Encoded: unknown }
  /**
   * Names of the files that a finished job has, all of them: lower-case letters and digits. An object gives each a
   * description: `{ audio: "The audio file." }`. None by default.
   */
  readonly files?: ReadonlyArray<File> | Readonly<Record<File, string>>
  /** Fields of the request that are not the caller's data: they stay, as `kept`, when the rest is erased. None by default. */
  readonly keeps?: ReadonlyArray<string & keyof SchemaInput<S>>
  /** A positive integer, default 1. Raise it whenever workers of the old code could not run requests of the new. */
  readonly version?: number
  /** The oldest version whose stored requests can still be run, default 1. */
  readonly readsFrom?: number
  /** The scope an API key must have, default the kind's name with `.create` behind it. */
  readonly keyScope?: KeyScope
  /** The price live jobs are charged by; without one they cost nothing. */
  readonly price?: string
  /**
   * The meters that `run` reports as `usage`. A kind with a `price` must list all of them, those of the built-in kinds
   * included: live jobs are accepted once the price names each one. A kind without a price may report the built-in ones unlisted.
   */
  readonly meters?: ReadonlyArray<Meter>
  /** Switches that must be on for live jobs. None by default. */
  readonly switches?: ReadonlyArray<SwitchName>
  /**
   * The providers it asks: built-in ones by name, others by their `providerPort`. A process that lacks one does not run the
   * kind. None by default.
   */
  readonly providers?: ReadonlyArray<Provider>
  /** Providers that can serve the kind instead, and do so if all of them are there. */
  readonly orProviders?: ReadonlyArray<OrProvider>
  readonly limits?: KindLimits
  /** The field of the request that names the upload a job consumes. Without it, jobs of the kind take no upload. */
  readonly upload?: Upload & keyof SchemaInput<S>
}

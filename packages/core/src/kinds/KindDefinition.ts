import type { Schema } from "effect"
import { type Effect } from "effect"
import { type KeyScope, type Meter, type SwitchName } from "../domain/index.ts"
import type { ProviderName } from "../ports/index.ts"
import type { FileRef, KindTypes } from "./KindTypes.ts"
import { type StandardSchema } from "./StandardSchema.ts"
import type { AttemptContext, AttemptError, AttemptResult } from "./AttemptContext.ts"

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

/** Output fields, as they are described; any JSON object where they are not. */
export type OutputSchema<Output extends object> = Schema.Codec<Output, unknown> | StandardSchema<unknown, Output>

/** What a kind's requests can be described with: a struct of Effect Schema, or any Standard Schema. */
export type DescribesRequest =
  | { readonly fields: Readonly<Record<string, unknown>>; readonly Type: unknown; readonly Encoded: unknown }
  | StandardSchema

export type Run<Request, Output> = (
  attempt: AttemptContext<Request>,
) => Effect.Effect<AttemptResult<Output>, AttemptError>

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

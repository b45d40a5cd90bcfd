import type { GivenSettings } from "../engine/EngineSettings.ts"
import type { Kind, TypesOf } from "../kinds/KindTypes.ts"
import type { BlobAdapter, ProbeAdapter, StoreAdapter } from "../ports/adapters.ts"
import type { NameOf, ProviderName, ProviderRef } from "../providers/builtInPorts.ts"
import type { AnyProvider } from "./AsyncProviders.ts"
import type { BuiltInKind } from "./builtIn.ts"

/** A line of the log. Never a prompt, a transcript or a secret. */
export interface LogEntry {
  readonly level: "debug" | "info" | "warning" | "error"
  readonly message: string
  /** What it is about: `jobId`, `attempt`, … */
  readonly fields: Readonly<Record<string, unknown>>
  readonly at: Date
}

/** What an engine is put together from. */
export interface EngineParts<K extends Kind, Transaction, SyncTransaction, Working extends boolean> {
  readonly store: StoreAdapter<Transaction, SyncTransaction>
  readonly blobs: BlobAdapter
  /** The kinds of job it knows; the built-in four by default. */
  readonly kinds?: ReadonlyArray<K>
  /** Measures uploaded audio. Without one, the declared duration counts. */
  readonly probe?: ProbeAdapter
  readonly settings?: GivenSettings
  /** `false` for a process that only submits and reads. Default: jobs run in this process. */
  readonly worker?: Working
  /** `false` leaves the worker still until `start` is called. Default: it runs as soon as the engine is there. */
  readonly autoStart?: boolean
  /** Where the log goes: warnings and errors to standard error by default; `false` is nowhere. */
  readonly log?: false | ((entry: LogEntry) => void)
}

/** All of these providers. */
type Whole<Refs extends ProviderRef> = { readonly [Ref in Refs as NameOf<Ref>]: AnyProvider<Ref> }

type Needed<K extends Kind> = [TypesOf<K>["needs"]["or"]] extends [never]
  ? Whole<TypesOf<K>["needs"]["all"]>
  : Whole<TypesOf<K>["needs"]["all"]> | Whole<TypesOf<K>["needs"]["or"]>

type Boxed<K extends Kind> = K extends Kind ? { readonly box: Needed<K> } : never
type Together<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never

/** What serves all of these kinds. More may be there. */
export type ProvidersFor<K extends Kind> =
  Together<Boxed<K>> extends { readonly box: infer Box } ? WithMore<Box> : never

/** In one piece, so that a compiler's message begins with the provider that is missing. */
type WithMore<Box> = Box extends unknown
  ? Flat<Box & { readonly [Name in Exclude<ProviderName, keyof Box>]?: AnyProvider<Name> | undefined }>
  : never
type Flat<Parts> = { readonly [Name in keyof Parts]: Parts[Name] }

/**
 * Who serves sandbox jobs and who serves live ones, one of them at least, and each whole. A sandbox job never reaches `live`.
 */
export type ModeProviders<Providers> =
  | { readonly sandbox: Providers; readonly live?: Providers }
  | { readonly live: Providers; readonly sandbox?: Providers }

type ProvidersOption<K extends Kind, Working extends boolean> = Working extends false
  ? { readonly providers?: undefined }
  : {} extends ProvidersFor<K>
    ? { readonly providers?: ModeProviders<ProvidersFor<K>> }
    : { readonly providers: ModeProviders<ProvidersFor<K>> }

/** The options of `createEngine`. */
export type EngineOptions<
  K extends Kind = BuiltInKind,
  Transaction = never,
  SyncTransaction = never,
  Working extends boolean = true,
> = EngineParts<K, Transaction, SyncTransaction, Working> & ProvidersOption<K, Working>

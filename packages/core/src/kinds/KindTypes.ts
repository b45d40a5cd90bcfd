import type { ProviderRef } from "../providers/builtInPorts.ts"

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

/** What a kind means to the types of those who use it. Nothing of this exists at run time. */
export interface KindTypes {
  /** What a caller submits. */
  readonly input: unknown
  /** What an attempt works with. */
  readonly request: unknown
  /** What a finished job brought, its files among it. */
  readonly output: unknown
  readonly needs: KindNeeds
  /** The field of the request that names an upload; `never` where the kind takes none. */
  readonly upload?: string
}

/** A job kind, as far as those who submit its jobs see it. `jobKind` and `JobKind` make them. */
export interface Kind<Name extends string = string, Types extends KindTypes = KindTypes> {
  /** What callers see as `type`. */
  readonly name: Name
  /** Types only: there is no value. */
  readonly "~kind": Types
}

/** The types of a kind. */
export type TypesOf<K extends Kind> = K["~kind"]
/** What a caller submits for a kind. */
export type InputOf<K extends Kind> = TypesOf<K>["input"]
/** What a finished job of a kind brought. */
export type OutputOf<K extends Kind> = TypesOf<K>["output"]

import type { BuiltInMeter } from "../domain/Billing.ts"
import type { BuiltInErrorCode, ErrorCode } from "../domain/ErrorCode.ts"
import type { Json } from "../domain/Json.ts"
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

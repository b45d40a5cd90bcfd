import type { WireName } from "./fieldNames.ts"
import type { JobRoute, UploadOf } from "./jobRoute.ts"

type TypesOf<R extends JobRoute> = R["kind"] extends { readonly "~kind": infer Types }
  ? Types
  : { readonly input: unknown; readonly output: unknown }
type InputOf<R extends JobRoute> = TypesOf<R> extends { readonly input: infer Input } ? Input : unknown
type OutputOf<R extends JobRoute> = TypesOf<R> extends { readonly output: infer Output } ? Output : unknown

/** A file in an output, which is a URL on the wire. */
interface File {
  readonly id: string
  readonly mediaType: string
  readonly sha256: string
}

type Named<T, Given> = T extends object
  ? { readonly [Field in keyof T as WireName<Field, Given> & string]: T[Field] }
  : never

/** The body that creates a job. */
export type WireRequest<R extends JobRoute> = Named<InputOf<R>, R["names"]>

/** The output of a finished job. */
export type WireOutput<R extends JobRoute> =
  OutputOf<R> extends infer Output
    ? {
        readonly [
          Field in keyof Output as Output[Field] extends File
            ? `${WireName<Field, R["names"]> & string}_url`
            : WireName<Field, R["names"]> & string
        ]: Output[Field] extends File ? string : Output[Field]
      }
    : never

/** The value of a chunk, as the kind emits it. */
export type WireChunk<R extends JobRoute> = TypesOf<R> extends { readonly chunk: infer Chunk } ? Chunk : unknown

/** The field that names the upload, on the wire; `never` without one. */
export type WireUpload<R extends JobRoute> =
  UploadOf<R["kind"]> extends infer Field
    ? [Field] extends [never]
      ? never
      : WireName<Field, R["names"]> & string
    : never

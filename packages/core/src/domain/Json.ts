/** A value that survives a round trip through JSON: what requests, checkpoints and outputs are made of. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject
export interface JsonObject {
  readonly [key: string]: Json
}

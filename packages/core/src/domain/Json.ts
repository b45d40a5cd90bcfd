/** A value that survives a round trip through JSON. Requests, checkpoints and outputs consist of such values. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject
export interface JsonObject {
  readonly [key: string]: Json
}

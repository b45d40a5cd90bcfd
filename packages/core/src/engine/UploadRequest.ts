import * as Schema from "effect/Schema"
import { audioFormats, limits } from "../domain/index.ts"
import { OneOf, PositiveUpTo } from "../kinds/fields.ts"

/** The fields of a request to announce an upload. */
export const UploadRequest = Schema.Struct({
  format: OneOf(audioFormats),
  declaredSeconds: PositiveUpTo(limits.declaredSeconds),
})

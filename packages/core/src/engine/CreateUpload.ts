import { Effect, Result, Schema } from "effect"
import { type AudioFormat, audioFormats, limits, type Principal, type Upload } from "../domain/index.ts"
import { decodeFields } from "../kinds/decodeFields.ts"
import { OneOf, PositiveUpTo } from "../kinds/fields.ts"
import { IdGenerator, UploadStore } from "../ports/index.ts"
import { EngineConfig } from "./EngineConfig.ts"
import { InvalidRequest } from "./errors.ts"

/** The fields of an announced upload. */
export const UploadRequest = Schema.Struct({
  format: OneOf(audioFormats),
  declaredSeconds: PositiveUpTo(limits.declaredSeconds),
})

/** Announces a file. Nothing is received yet. */
export const createUpload = Effect.fnUntraced(function* (principal: Principal, input: unknown) {
  const config = yield* EngineConfig
  const ids = yield* IdGenerator
  const store = yield* UploadStore
  const request = decodeFields(UploadRequest, input)
  if (Result.isFailure(request)) return yield* new InvalidRequest({ errors: request.failure })
  const [upload] = yield* store.createUploads([
    {
      id: yield* ids.next("upl"),
      projectId: principal.projectId,
      keyId: principal.keyId,
      mode: principal.mode,
      format: request.success.format as AudioFormat,
      declaredSeconds: request.success.declaredSeconds,
      transferWindowMs: config.upload.transferWindowMs,
      usableForMs: config.upload.usableForMs,
    },
  ])
  return upload as Upload
})

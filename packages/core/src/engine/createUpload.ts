import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { hasRoom, type Principal } from "../domain/index.ts"
import { InvalidRequest, UploadsFull } from "../domain/Errors.ts"
import { IdGenerator, UploadStore } from "../ports/index.ts"
import type { NewUpload } from "../domain/transferAcceptance.ts"
import { EngineConfig } from "./EngineConfig.ts"
import { storageFull } from "./storageFull.ts"
import { readUpload } from "./readUpload.ts"

/** Milliseconds that override the settings of the same names for an upload. */
export type UploadLifetime = Pick<NewUpload, "transferWindowMs" | "usableForMs">

/**
 * Announces an upload, whose transfer follows. Fails with `UploadsFull` at the limit of uploads that wait for jobs, and with
 * `StorageFull` if the project may keep nothing more.
 */
export const createUpload = Effect.fnUntraced(function* (
  principal: Principal,
  input: unknown,
  lifetime?: UploadLifetime,
) {
  const config = yield* EngineConfig
  const ids = yield* IdGenerator
  const store = yield* UploadStore
  const request = readUpload(input)
  if (Result.isFailure(request)) return yield* Effect.fail(new InvalidRequest({ errors: request.failure }))
  const { maxTransfers } = config.upload
  const { uploads } = config.uploadCap
  const storageCap = config.storageCap[principal.mode]
  if (storageCap > 0) {
    const kept = yield* store.keptBytes(principal.projectId, principal.mode)
    if (!hasRoom(kept, storageCap)) return yield* Effect.fail(storageFull(storageCap, kept))
  }
  const [created] = yield* store.createUploads([
    {
      id: ids.next("upl"),
      projectId: principal.projectId,
      keyId: principal.keyId,
      mode: principal.mode,
      format: request.success.format,
      declaredSeconds: request.success.declaredSeconds,
      transferWindowMs: lifetime?.transferWindowMs ?? config.upload.transferWindowMs,
      usableForMs: lifetime?.usableForMs ?? config.upload.usableForMs,
      ...(uploads > 0 && { cap: { uploads, maxTransfers } }),
    },
  ])
  if (created === undefined) return yield* Effect.die(new TypeError("createUploads returned no outcome for an upload"))
  return created === "UploadsFull" ? yield* Effect.fail(new UploadsFull(config.uploadCap)) : created
})

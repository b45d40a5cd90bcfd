import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { type AudioFormat, audioFormats, type FieldError, limits, type Principal } from "../domain/index.ts"
import { hasRoom } from "../domain/rules.ts"
import { InvalidRequest, UploadsFull } from "../domain/Errors.ts"
import { IdGenerator, UploadStore } from "../ports/index.ts"
import type { NewUpload } from "../domain/Upload.ts"
import type { FieldRule } from "../domain/FieldError.ts"
import { correctUnknown, fieldRules } from "../kinds/readBySchema.ts"
import { EngineConfig } from "./EngineConfig.ts"
import { storageFull } from "./createJob.ts"

/** A decoded request to announce an upload. */
interface AnnouncedUpload {
  readonly format: AudioFormat
  readonly declaredSeconds: number
}

const formatProblem = (value: unknown): FieldRule | undefined => {
  if (typeof value !== "string") return fieldRules.type("a string")
  return (audioFormats as ReadonlyArray<string>).includes(value) ? undefined : fieldRules.oneOf(audioFormats)
}

const secondsProblem = (value: unknown): FieldRule | undefined => {
  if (typeof value !== "number") return fieldRules.type("a number")
  if (!(value > 0)) return fieldRules.positive
  return value <= limits.declaredSeconds ? undefined : fieldRules.atMost(limits.declaredSeconds)
}

const problems = { format: formatProblem, declaredSeconds: secondsProblem } as const

/**
 * Decodes a request as `UploadRequest` describes it, with the same errors; a test compares them. That is a schema of Effect, which takes
 * long to load, and every engine accepts uploads.
 */
export const readUpload = (input: unknown): Result.Result<AnnouncedUpload, ReadonlyArray<FieldError>> => {
  if (typeof input !== "object" || input === null || Array.isArray(input))
    return Result.fail([{ field: "", ...fieldRules.notObject }])
  // Read once, so that what was checked is what is returned.
  const given: Readonly<Record<string, unknown>> = { ...input }
  const errors: Array<FieldError> = []
  for (const [field, problem] of Object.entries(problems)) {
    const rule = Object.hasOwn(given, field) ? problem(given[field]) : fieldRules.required
    if (rule !== undefined) errors.push({ field, ...rule })
  }
  for (const field of Object.keys(given))
    if (!Object.hasOwn(problems, field)) errors.push({ field, ...fieldRules.unknown })
  if (errors.length > 0) return Result.fail(correctUnknown(errors, Object.keys(problems)))
  return Result.succeed({ format: given["format"] as AudioFormat, declaredSeconds: given["declaredSeconds"] as number })
}

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

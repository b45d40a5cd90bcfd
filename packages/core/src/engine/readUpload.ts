import * as Result from "effect/Result"
import { type AudioFormat, audioFormats, type FieldError, limits } from "../domain/index.ts"
import type { FieldRule } from "../domain/FieldError.ts"
import { correctUnknown } from "../kinds/correctUnknown.ts"
import { fieldRules } from "../kinds/fieldRules.ts"

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

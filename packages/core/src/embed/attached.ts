import {
  isStorableText,
  type Json,
  type MetadataValue,
  requireNumber,
  requireOptions,
  type Submitted,
} from "../domain/index.ts"
import { unknownName } from "../domain/knownNames.ts"
import { isPlainObject } from "../domain/realms.ts"
import { maxDelayMs, type UniqueBy } from "../engine/prepareJob.ts"
import { asJson, jsonProblem } from "../kinds/asJson.ts"
import type { JobKind } from "../kinds/index.ts"
import type { SubmitOptions } from "./EmbeddedEngine.ts"
import { uniqueOptions } from "./optionNames.ts"

const maxTags = 16
const maxTagLength = 64
const maxFields = 16
const maxNameLength = 64
const maxTextLength = 256
/** Length of its JSON text. */
const maxContextLength = 4_096

/** Throws `TypeError` unless these are tags. */
export const requireTags = (place: string, tags: unknown): void => {
  if (!Array.isArray(tags) || tags.length > maxTags || !tags.every((tag) => isText(tag, maxTagLength)))
    throw new TypeError(`${place} must be a list of up to ${maxTags} texts of 1 to ${maxTagLength} characters`)
}

const isText = (value: unknown, longest: number): boolean =>
  isStorableText(value) && value.length > 0 && value.length <= longest

const isValue = (value: unknown): value is MetadataValue =>
  typeof value === "boolean" ||
  (typeof value === "number" && Number.isFinite(value)) ||
  (isStorableText(value) && value.length <= maxTextLength)

/** Throws `TypeError` unless this is metadata that can be attached to a job. */
export const requireMetadata = (place: string, metadata: unknown): void => {
  if (!isPlainObject(metadata)) throw new TypeError(`${place} must be an object`)
  const fields = Object.entries(metadata)
  if (fields.length > maxFields) throw new TypeError(`${place} must have at most ${maxFields} fields`)
  for (const [name, value] of fields) {
    if (!isText(name, maxNameLength) || name.startsWith("kiln:"))
      throw new TypeError(`names in ${place} must have 1 to ${maxNameLength} characters and not begin with "kiln:"`)
    if (!isValue(value))
      throw new TypeError(`${place}.${name} must be a boolean, a number or a text of up to ${maxTextLength} characters`)
  }
}

/** Returns the parts that a submission attaches to its job. Throws `TypeError` for invalid ones. */
export const submittedFor = (
  kind: JobKind,
  { metadata, tags }: SubmitOptions,
  capture: (() => Json | undefined) | undefined,
): Submitted | undefined => {
  if (tags !== undefined) requireTags("tags", tags)
  if (metadata !== undefined) {
    requireMetadata("metadata", metadata)
    const declared = Object.keys(metadata).find((name) => kind.metadata.includes(name))
    if (declared !== undefined)
      throw new TypeError(`metadata.${declared}: the kind ${kind.name} keeps the request field of this name`)
  }
  const context = capture === undefined ? undefined : captured(capture)
  if (tags === undefined && metadata === undefined && context === undefined) return undefined
  return {
    ...(tags !== undefined && { tags: [...new Set(tags)] }),
    ...(metadata !== undefined && { metadata }),
    ...(context !== undefined && { context }),
  }
}

const captured = (capture: () => Json | undefined): Json | undefined => {
  const context = capture()
  if (context === undefined) return undefined
  const json = asJson(context)
  if (json === undefined || json.length > maxContextLength)
    throw new TypeError(
      `context.capture must return JSON of at most ${maxContextLength} characters, or undefined${json === undefined ? `; the value${jsonProblem(context)}` : ""}`,
    )
  return context
}

/**
 * Throws `TypeError` for a field that neither the kind nor the request has. A misspelled name would compare nothing, so that all jobs of
 * the kind would count as the same.
 */
const requireFields = (by: ReadonlyArray<string>, { name: kind, reader: { names } }: JobKind, request: unknown) => {
  if (names === undefined) return
  const present = typeof request === "object" && request !== null ? Object.keys(request) : []
  const unknown = by.find((name) => !names.includes(name) && !present.includes(name))
  if (unknown !== undefined)
    throw new TypeError(unknownName(`field "${unknown}" of ${kind} in unique.by`, unknown, names))
}

/** Checks the option `unique`. Throws `TypeError`. */
export const uniqueFor = (unique: SubmitOptions["unique"], kind: JobKind, request: unknown): UniqueBy | undefined => {
  if (unique === undefined) return undefined
  requireOptions("unique", unique, uniqueOptions)
  const { by, while: duration } = unique as { readonly by?: unknown; readonly while?: unknown }
  if (by !== undefined && typeof by !== "string" && !(Array.isArray(by) && by.length > 0 && by.every(isName)))
    throw new TypeError("unique.by must be a text or a list of names of request fields")
  if (typeof duration === "number") requireNumber("unique.while", duration, { least: 1, most: maxDelayMs })
  else if (duration !== "queued" && duration !== "unfinished")
    throw new TypeError(
      typeof duration === "string"
        ? unknownName(`unique.while "${duration.slice(0, 100)}"`, duration, ["queued", "unfinished"])
        : 'unique.while must be "queued", "unfinished" or a number of milliseconds',
    )
  if (Array.isArray(by)) requireFields(by, kind, request)
  return unique
}

const isName = (name: unknown): boolean => typeof name === "string"

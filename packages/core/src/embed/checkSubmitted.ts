import { isStorableText, type Json } from "../domain/index.ts"
import { isPlainObject } from "../domain/realms.ts"
import type { MetadataValue, Submitted } from "../domain/Submitted.ts"
import { asJson, jsonProblem } from "../kinds/asJson.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import type { SubmitOptions } from "./EmbeddedEngine.ts"
import { prerequisitesFor } from "./prerequisitesFor.ts"

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
    if (isValue(value)) continue
    const rule = `${place}.${name} must be a boolean, a number or a text of up to ${maxTextLength} characters`
    const problem = jsonProblem(`${place}.${name}`, value)
    throw new TypeError(problem === undefined ? rule : `${rule}. ${problem}`)
  }
}

/** Returns metadata without fields that are `undefined`, which count as absent. Throws `TypeError` unless it can be attached to a job. */
export const attachedMetadata = (metadata: unknown): Readonly<Record<string, MetadataValue>> => {
  const given = isPlainObject(metadata)
    ? Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== undefined))
    : metadata
  requireMetadata("metadata", given)
  return given as Readonly<Record<string, MetadataValue>>
}

/** Returns the parts that a submission attaches to its job. Throws `TypeError` for invalid ones. */
export const submittedFor = (
  kind: JobKind,
  { after, metadata: given, onPrerequisiteFailure, tags }: SubmitOptions,
  capture: (() => Json | undefined) | undefined,
): Submitted | undefined => {
  if (tags !== undefined) requireTags("tags", tags)
  const metadata = given === undefined ? undefined : attachedMetadata(given)
  if (metadata !== undefined) {
    const declared = Object.keys(metadata).find((name) => kind.metadata.includes(name))
    if (declared !== undefined)
      throw new TypeError(`metadata.${declared}: the kind ${kind.name} keeps the request field of this name`)
  }
  const context = capture === undefined ? undefined : captured(capture)
  const prerequisites = prerequisitesFor(after, onPrerequisiteFailure)
  if (tags === undefined && metadata === undefined && context === undefined) return prerequisites
  return {
    ...prerequisites,
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
      `context.capture must return JSON of at most ${maxContextLength} characters, or undefined${json === undefined ? `. ${jsonProblem("context", context)}` : ""}`,
    )
  return context
}

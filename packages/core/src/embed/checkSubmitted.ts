import {
  isId,
  isStorableText,
  type JobId,
  type Json,
  type OptionNames,
  requireNumber,
  requireOneOf,
  requireOptions,
} from "../domain/index.ts"
import { isPlainObject, unknownName } from "../domain/givenValues.ts"
import { asJson, jsonProblem } from "../kinds/readBySchema.ts"
import { maxPrerequisites, type MetadataValue, type Submitted } from "../domain/JobMetadata.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { maxDelayMs, type UniqueBy } from "../engine/prepareJob.ts"
import type { SubmitOptions, UniqueOptions } from "./EmbeddedEngine.ts"
import { idOf } from "./toJobResult.ts"

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

const policies = ["fail", "run"]

/** Returns the part of a submission that names its prerequisites. Throws `TypeError` for invalid ones. */
const prerequisitesFor = (
  after: SubmitOptions["after"],
  onFailure: SubmitOptions["onPrerequisiteFailure"],
): Submitted | undefined => {
  if (onFailure !== undefined) requireOneOf("onPrerequisiteFailure", onFailure, policies)
  if (after === undefined) {
    if (onFailure !== undefined) throw new TypeError("onPrerequisiteFailure needs the option after")
    return undefined
  }
  if (!Array.isArray(after) || after.length > maxPrerequisites)
    throw new TypeError(`after must be a list of up to ${maxPrerequisites} jobs or ids of jobs`)
  // A list that a program has built may be empty.
  if (after.length === 0) return undefined
  return { after: after.map(jobIdOf), ...(onFailure === "run" && { afterFailure: onFailure }) }
}

const jobIdOf = (job: NonNullable<SubmitOptions["after"]>[number], index: number): JobId => {
  const id = typeof job === "object" && job !== null && "id" in job ? idOf(job) : job
  if (typeof id !== "string" || !isId("job", id))
    throw new TypeError(
      `after[${index}] must be a job or the id of a job: await engine.submit(…) before you name its job`,
    )
  return id
}

const uniqueOptions: OptionNames<UniqueOptions> = { by: true, while: true, onDuplicate: true }

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
  const { by, onDuplicate, while: duration } = unique as Partial<Record<keyof UniqueOptions, unknown>>
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
  if (onDuplicate === undefined) return unique
  requireOneOf("unique.onDuplicate", onDuplicate, ["extend", "replace"])
  // Once an attempt has begun, no delay begins again, and no request is replaced.
  if (duration !== "queued") throw new TypeError('unique.onDuplicate needs while: "queued"')
  return unique
}

const isName = (name: unknown): boolean => typeof name === "string"

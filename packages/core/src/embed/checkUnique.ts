import { type OptionNames, requireNumber, requireOneOf, requireOptions } from "../domain/index.ts"
import { unknownName } from "../domain/knownNames.ts"
import { maxDelayMs, type UniqueBy } from "../engine/prepareJob.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import type { SubmitOptions, UniqueOptions } from "./EmbeddedEngine.ts"

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

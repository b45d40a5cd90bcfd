import { type OptionNames, requireOptions } from "../domain/knownNames.ts"
import type { FileOptions } from "./KindDefinition.ts"

/** The `files` of a definition: names, or an object with what it says about each. */
export type Files = ReadonlyArray<string> | Readonly<Record<string, string | FileOptions>>

const fileOptionNames: OptionNames<FileOptions> = { description: true, maxBytes: true }

const optionsIn = (files: Files): ReadonlyArray<readonly [string, FileOptions]> =>
  isList(files)
    ? []
    : Object.entries(files).map(([name, given]) => [name, typeof given === "string" ? { description: given } : given])

const isList = (files: Files): files is ReadonlyArray<string> => Array.isArray(files)

/** Throws `TypeError` for an unknown or invalid option of a file. */
export const checkFileOptions = (place: string, files: Files): void => {
  for (const [name, options] of optionsIn(files)) {
    requireOptions(`files.${name} of ${place}`, options, fileOptionNames)
    const { description, maxBytes } = options
    if (description !== undefined && typeof description !== "string")
      throw new TypeError(`${place}: the description of "${name}" in files must be a string`)
    if (maxBytes !== undefined && !(Number.isSafeInteger(maxBytes) && maxBytes >= 1))
      throw new TypeError(`${place}: files.${name}.maxBytes must be a positive integer, not ${String(maxBytes)}`)
  }
}

/** Returns the descriptions of the files that have one. */
export const fileDescriptionsOf = (files: Files): Readonly<Record<string, string>> =>
  Object.fromEntries(
    optionsIn(files).flatMap(([name, { description }]) => (description === undefined ? [] : [[name, description]])),
  )

/** Returns the limits of the files that state one, in bytes. */
export const fileLimitsOf = (files: Files): Readonly<Record<string, number>> =>
  Object.fromEntries(
    optionsIn(files).flatMap(([name, { maxBytes }]) => (maxBytes === undefined ? [] : [[name, maxBytes]])),
  )

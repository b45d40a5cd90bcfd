import { accessSync, constants, statSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { dirname, extname } from "node:path"
import * as Effect from "effect/Effect"
import { causeMessage, codesOf, type CommandFailed, failed } from "../CommandFailed.ts"

/** A file that a command was asked to write. */
export interface OutputPlace {
  readonly path: string | undefined
  readonly force: boolean
}

/** Writing to a device or a pipe overwrites nothing. */
const isTaken = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true

const taken = (path: string): CommandFailed =>
  failed(`${path} already exists: name another file with --output, or overwrite it with --force`)

/** Fails before anything is sent if the file could not be written afterwards. */
export const checkOutput = ({ force, path }: OutputPlace): Effect.Effect<void, CommandFailed> =>
  Effect.suspend(() => {
    if (path === undefined) return Effect.void
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true)
      return Effect.fail(failed(`${path} is a directory: --output names a file`))
    if (isTaken(path) && !force) return Effect.fail(taken(path))
    return Effect.try({
      try: () => accessSync(dirname(path), constants.W_OK),
      catch: (cause) => failed(`cannot write to ${dirname(path)}: ${causeMessage(cause)}`),
    })
  })

const extensions: Readonly<Record<string, string>> = {
  "audio/mpeg": "mp3",
  "audio/mp4": "m4a",
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/webm": "webm",
  "audio/ogg": "ogg",
  "audio/flac": "flac",
  "image/png": "png",
}

/** Returns the extension of a media type's files, or that of a file with unknown content. */
export const extensionOf = (mediaType: string): string => extensions[mediaType] ?? "bin"

/** Returns whether a file's name promises another known format than its content has. */
export const isMisnamed = (path: string, mediaType: string): boolean => {
  const extension = extname(path).slice(1).toLowerCase()
  return Object.values(extensions).includes(extension) && extension !== extensionOf(mediaType)
}

/** Writes a result. An existing file stays unless `force` is set. */
export const writeOutput = (
  path: string,
  content: string | Uint8Array,
  force: boolean,
): Effect.Effect<void, CommandFailed> =>
  Effect.tryPromise({
    try: () => writeFile(path, content, { flag: force || !isTaken(path) ? "w" : "wx" }),
    catch: (cause) =>
      codesOf(cause).includes("EEXIST") ? taken(path) : failed(`cannot write ${path}: ${causeMessage(cause)}`),
  })

import { existsSync, readdirSync, readFileSync, renameSync, statSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { causeMessage, type CommandFailed, failed } from "../CommandFailed.ts"
import { directoriesAround, findInstallation, isWithin, realPathOf } from "../installation/findInstallation.ts"
import { backupMarker, generationsOf, isGenerationName } from "./backupMarker.ts"
import {
  type Generation,
  isPartialName,
  listGenerations,
  onFiles,
  partFiles,
  readBlobKeys,
  syncDirectory,
  writeDurably,
} from "./BackupDirectory.ts"

const unfinishedMarker = `${backupMarker}.new`
const Marker = Schema.Struct({ contents: Schema.Literal("kiln backups"), format: Schema.Literal(1) })
const decodeMarker = Schema.decodeUnknownSync(Schema.fromJsonString(Marker))

export const lockFile = "lock"

/** Entries that a backup creates, and those of an empty file system. */
const layout = new Set([
  backupMarker,
  unfinishedMarker,
  lockFile,
  `${lockFile}-journal`,
  "blobs",
  "generations",
  "tmp",
  "lost+found",
])

/** Entries of `blobs`: the files, and the identity that a file store gives its directory. */
const storeIdentity = ".store"
const poolLayout = new Set(["jobs", "uploads", storeIdentity])

const elsewhere = "choose an empty or new directory, best on another disk"

const namesIn = (path: string): ReadonlyArray<string> => (existsSync(path) ? readdirSync(path) : [])

const isDirectory = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

const filesBelow = (path: string): ReadonlyArray<string> =>
  existsSync(path)
    ? readdirSync(path, { recursive: true, withFileTypes: true })
        .filter((entry) => !entry.isDirectory())
        .map((entry) => join(entry.parentPath, entry.name))
    : []

/** Returns why a backup must not be written there, from what lies around it and in it. */
const objectionTo = (directory: string, ownDirectories: ReadonlyArray<string>): string | undefined => {
  const path = realPathOf(directory)
  if (existsSync(path) && !isDirectory(path)) return "it is not a directory"
  for (const own of ownDirectories.map(realPathOf)) {
    if (own === path) return `it is a directory of the installation itself: ${elsewhere}`
    if (isWithin(own, path))
      return `it is inside ${own}, a directory of the installation itself: choose a directory outside of it, best on another disk; backups that are there can be moved with mv`
    if (isWithin(path, own)) return `it contains ${own}, a directory of the installation itself: ${elsewhere}`
  }
  const sign = findInstallation(path)
  if (sign !== undefined) return `it belongs to an installation, because it has ${sign}: ${elsewhere}`
  const around = directoriesAround(path).find((outer) => findInstallation(outer) !== undefined)
  if (around !== undefined)
    return `it is inside ${around}, which belongs to an installation, because it has ${String(findInstallation(around))}: choose a directory outside of it; backups that are there can be moved with mv`
  const inside = namesIn(path).find((name) => findInstallation(join(path, name)) !== undefined)
  return inside === undefined
    ? undefined
    : `it contains ${inside}, which belongs to an installation, because it has ${String(findInstallation(join(path, inside)))}: ${elsewhere}`
}

/** Returns why the contents of a directory without a marker are not certainly a backup. */
const doubtOf = (directory: string): string | undefined => {
  const others = namesIn(directory).filter((name) => !layout.has(name))
  if (others.length > 0) {
    const [first = "", second] = others.toSorted()
    const more = second === undefined ? "" : others.length === 2 ? ` and ${second}` : ` and ${others.length - 1} more`
    return `it is neither empty nor a backup directory (it contains ${first}${more}): ${elsewhere}, such as ${join(directory, "kiln")}`
  }
  const blobs = namesIn(join(directory, "blobs")).find((name) => !poolLayout.has(name))
  if (blobs !== undefined) return `it contains blobs/${blobs}, which is not part of a backup: ${elsewhere}`
  for (const name of namesIn(generationsOf(directory))) {
    const part = namesIn(join(generationsOf(directory), name)).find((file) => !partFiles.test(file))
    if ((!isGenerationName(name) && !isPartialName(name)) || part !== undefined)
      return `it contains ${join("generations", name, part ?? "")}, which is not part of a backup: ${elsewhere}`
  }
  return undefined
}

/** Refuses files that no backup names: a version that set no marker may have been pointed at a directory of someone else's files. */
const requireNamed = Effect.fnUntraced(function* (directory: string, earlier: ReadonlyArray<Generation>) {
  const named = new Set([join(directory, "blobs", storeIdentity)])
  for (const generation of earlier)
    for (const key of yield* readBlobKeys(directory, generation))
      for (const path of FileBlobStore.pathsOf(directory, key)) named.add(path)
  const unnamed = yield* onFiles(directory, () =>
    [...filesBelow(join(directory, "blobs")), ...filesBelow(join(directory, "tmp"))].filter((file) => !named.has(file)),
  )
  const [first] = unnamed
  if (first === undefined) return
  return yield* refused(
    directory,
    `it has no ${backupMarker}, and ${unnamed.length === 1 ? "a file" : `${unnamed.length} files`} that none of its backups names, such as ${first}. ` +
      `Begin a new directory, and keep this one until you no longer need its backups: kiln restore reads it`,
  )
})

const refused = (directory: string, reason: string): Effect.Effect<never, CommandFailed> =>
  Effect.fail(failed(`cannot back up into ${directory}: ${reason}`))

const isMarked = (directory: string): boolean => {
  const path = join(directory, backupMarker)
  if (!existsSync(path)) return false
  try {
    decodeMarker(readFileSync(path, "utf8"))
  } catch (cause) {
    throw new Error(`${path} cannot be read: ${causeMessage(cause)}`, { cause })
  }
  return true
}

/**
 * Refuses a directory that is, contains or lies in one of an installation, and one that holds anything but backups, before anything is
 * created there. A directory of backups by a version of kiln that set no marker passes.
 */
export const refuseOccupied = Effect.fnUntraced(function* (directory: string, ownDirectories: ReadonlyArray<string>) {
  const objection = yield* onFiles(directory, () => objectionTo(directory, ownDirectories))
  if (objection !== undefined) return yield* refused(directory, objection)
  if (yield* onFiles(directory, () => isMarked(directory))) return
  const doubt = yield* onFiles(directory, () => doubtOf(directory))
  if (doubt !== undefined) return yield* refused(directory, doubt)
  yield* requireNamed(directory, yield* listGenerations(directory))
})

/** Marks a directory that `refuseOccupied` let pass. Needs the lock of the directory. Nothing may be removed there before. */
export const claimDirectory = (directory: string) =>
  onFiles(directory, async () => {
    if (isMarked(directory)) return
    const marker = { contents: "kiln backups", format: 1 } satisfies typeof Marker.Type
    await writeDurably(join(directory, unfinishedMarker), `${JSON.stringify(marker)}\n`, "w")
    renameSync(join(directory, unfinishedMarker), join(directory, backupMarker))
    await syncDirectory(directory)
  })

import { readdir, rm, stat } from "node:fs/promises"
import { join } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { attempt, type BlobDirectory } from "./BlobDirectory.ts"
import { hasCode } from "./system.ts"

// The name of a temporary file contains the blob's key (`jobs.a.1.output.<uuid>.part`), so that removing a prefix also
// finds the files a killed process left. Keys contain neither dots nor dashes, so a name cannot be mistaken for another key's.
const SUFFIX = ".part"

const baseOf = (key: string): string => `${key.replaceAll("/", ".")}.`

/** Only such a name is ours: `tmp` may hold other files, for example if the data directory is `/var`. */
const ours = /^[0-9a-z]+(\.[0-9a-z]+)*\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.part$/

export const temporaryName = (key: string, uuid: string): string => baseOf(key) + uuid + SUFFIX

/**
 * Removes the temporary files of the key `prefix` and of keys below it. A put in progress then has nothing to rename into place, and
 * fails. The removal is durable once `syncTemporaries` has returned.
 */
export const removeTemporaries = async (directory: BlobDirectory, prefix: string): Promise<void> => {
  const base = baseOf(prefix)
  const names = await directory.scans.of(directory.temporary)
  await removeEach(
    directory,
    names.filter((name) => name.startsWith(base) && ours.test(name)),
    () => true,
  )
}

/** Makes removals durable. The directory may have been removed from outside; the next put creates it again. */
export const syncTemporaries = ({ syncs, temporary }: BlobDirectory): Promise<void> =>
  syncs.sync(temporary).catch((error: unknown) => {
    if (!hasCode(error, "ENOENT")) throw error
  })

/** Removes files, also those after one that cannot be removed. Then fails with the first failure. */
const removeEach = async (
  directory: BlobDirectory,
  names: ReadonlyArray<string>,
  isWanted: (path: string) => boolean | Promise<boolean>,
): Promise<void> => {
  const failures: Array<unknown> = []
  for (const name of names) {
    const path = join(directory.temporary, name)
    try {
      if (await isWanted(path)) await rm(path, { force: true })
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}

const ABANDONED_AFTER_MS = 60 * 60 * 1000
const LOOK_THROUGH_EVERY_MS = 10 * 60 * 1000

/**
 * Removes temporary files left behind by a killed process. Another process may be writing here, so only files without
 * writes for an hour count as abandoned. Scans at most once every ten minutes, however often it is called.
 */
export const removeAbandoned = Effect.fnUntraced(function* (directory: BlobDirectory) {
  const now = yield* Clock.currentTimeMillis
  if (now - directory.lookedThroughAt < LOOK_THROUGH_EVERY_MS) return
  directory.lookedThroughAt = now
  yield* attempt(directory, "start", async () => {
    const names = (await readdir(directory.temporary)).filter((name) => ours.test(name) && !directory.writing.has(name))
    await removeEach(directory, names, async (path) => now - (await writtenAt(path)) >= ABANDONED_AFTER_MS)
    await syncTemporaries(directory)
  })
})

/** Returns the time of the last write in Unix milliseconds; `Infinity` if the file is gone. */
const writtenAt = (path: string): Promise<number> =>
  stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    (error: unknown) => {
      if (hasCode(error, "ENOENT")) return Infinity
      throw error
    },
  )

import { readdir, rm, stat } from "node:fs/promises"
import { join } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { attempt, type BlobDirectory } from "./BlobDirectory.ts"
import { hasCode, syncDirectory } from "./system.ts"

// The name of a temporary file contains the blob's key (`jobs.a.1.output.<uuid>.part`), so that removing a prefix also
// finds the files a killed process left. Keys contain neither dots nor dashes, so a name cannot be mistaken for another key's.
const SUFFIX = ".part"

const baseOf = (key: string): string => `${key.replaceAll("/", ".")}.`

export const temporaryName = (key: string, uuid: string): string => baseOf(key) + uuid + SUFFIX

/**
 * Durably removes the temporary files of the key `prefix` and of keys below it. A put in progress then has nothing to
 * rename into place, and fails.
 */
export const removeTemporaries = async (directory: BlobDirectory, prefix: string): Promise<void> => {
  const base = baseOf(prefix)
  try {
    for (const name of await readdir(directory.temporary))
      if (name.startsWith(base) && name.endsWith(SUFFIX)) await rm(join(directory.temporary, name), { force: true })
    // Syncs even if nothing was removed now: an earlier call or a failed put may have removed files without syncing.
    await syncDirectory(directory.temporary)
  } catch (error) {
    // The directory was removed from outside; the next put creates it again.
    if (!hasCode(error, "ENOENT")) throw error
  }
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
    let removed = false
    for (const name of await readdir(directory.temporary)) {
      if (!name.endsWith(SUFFIX) || directory.writing.has(name)) continue
      const path = join(directory.temporary, name)
      if (now - (await writtenAt(path)) < ABANDONED_AFTER_MS) continue
      await rm(path, { force: true })
      removed = true
    }
    if (removed) await syncDirectory(directory.temporary)
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

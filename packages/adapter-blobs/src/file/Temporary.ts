import { readdir, rm, stat } from "node:fs/promises"
import { join } from "node:path"
import { Clock, Effect } from "effect"
import type { BlobDirectory } from "./BlobDirectory.ts"
import { attempt, hasCode, syncDirectory } from "./system.ts"

// What is being written has its key in its name, so that the removal of a prefix finds what a killed process left
// of it: `jobs.a.1.output.<uuid>.part`. A key has neither dots nor dashes, so no name is taken for that of another key.
const SUFFIX = ".part"

const baseOf = (key: string): string => `${key.replaceAll("/", ".")}.`

export const temporaryName = (key: string, uuid: string): string => baseOf(key) + uuid + SUFFIX

/**
 * Removes, durably, what is or was being written under the key `prefix` or below it. A put that is still at it then has
 * nothing to rename into place, and fails.
 */
export const removeTemporaries = async (directory: BlobDirectory, prefix: string): Promise<void> => {
  const base = baseOf(prefix)
  try {
    for (const name of await readdir(directory.temporary))
      if (name.startsWith(base) && name.endsWith(SUFFIX)) await rm(join(directory.temporary, name), { force: true })
    // Also when there was none: an earlier call, or a put that failed, may not have come to that.
    await syncDirectory(directory.temporary)
  } catch (error) {
    // Somebody tidied up; the next put makes it again.
    if (!hasCode(error, "ENOENT")) throw error
  }
}

const ABANDONED_AFTER_MS = 60 * 60 * 1000
const LOOK_THROUGH_EVERY_MS = 10 * 60 * 1000

/**
 * Removes temporary files that a killed process left behind. Another process may be writing here, so only what was not
 * written to for an hour is taken for abandoned. Called often, it looks once in ten minutes.
 */
export const removeAbandoned = Effect.fnUntraced(function* (directory: BlobDirectory) {
  const now = yield* Clock.currentTimeMillis
  if (now - directory.lookedThroughAt < LOOK_THROUGH_EVERY_MS) return
  directory.lookedThroughAt = now
  yield* attempt("start", async () => {
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

/** Unix milliseconds; never, for what is gone. */
const writtenAt = (path: string): Promise<number> =>
  stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    (error: unknown) => {
      if (hasCode(error, "ENOENT")) return Infinity
      throw error
    },
  )

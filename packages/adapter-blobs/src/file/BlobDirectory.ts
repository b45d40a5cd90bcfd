import { mkdir } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import type { BlobUnavailable } from "@kiln/core/domain"
import { Effect } from "effect"
import { attempt, DIRECTORY_MODE, hasCode, syncDirectory } from "./system.ts"

/** Where the blobs of one store are. */
export interface BlobDirectory {
  /** Holds `<key>.blob` files. A key has no dot, so no blob is in the way of the directory of another. */
  readonly blobs: string
  /** Holds what is being written; on the same file system, or the rename would not be atomic. */
  readonly temporary: string
  /** Names in `temporary` that this process is writing. */
  readonly writing: Set<string>
  /** When `temporary` was last looked through, Unix milliseconds. */
  lookedThroughAt: number
}

export const BLOB_SUFFIX = ".blob"

/** The file of one blob. */
export const fileOf = (directory: BlobDirectory, key: string): string => join(directory.blobs, key + BLOB_SUFFIX)

/** The directory of the blobs under `prefix/`. */
export const directoryOf = (directory: BlobDirectory, prefix: string): string => join(directory.blobs, prefix)

export const openBlobDirectory = Effect.fnUntraced(function* (
  path: string,
): Effect.fn.Return<BlobDirectory, BlobUnavailable> {
  const base = resolve(path)
  const directory: BlobDirectory = {
    blobs: join(base, "blobs"),
    temporary: join(base, "tmp"),
    writing: new Set(),
    lookedThroughAt: -Infinity,
  }
  yield* attempt("start", async () => {
    const created = await mkdir(directory.blobs, { recursive: true, mode: DIRECTORY_MODE })
    await mkdir(directory.temporary, { recursive: true, mode: DIRECTORY_MODE })
    await syncUpwards(directory.blobs, dirname(created ?? base))
  })
  return directory
})

/** `created` was missing before: its own entry, and that of each directory below it, must survive a power failure. */
const syncUpwards = async (from: string, top: string): Promise<void> => {
  for (let path = from; ; path = dirname(path)) {
    try {
      await syncDirectory(path)
    } catch (error) {
      // Only a directory of somebody else, above ours, may be unreadable; we made nothing in it then.
      if (path !== top || !hasCode(error, "EACCES", "EPERM")) throw error
    }
    if (path === top) return
  }
}

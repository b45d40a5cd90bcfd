import { mkdir } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import type { BlobUnavailable } from "@kiln/core/domain"
import * as Effect from "effect/Effect"
import { attempt, DIRECTORY_MODE, hasCode, syncDirectory } from "./system.ts"

/** The directories of one store, and its state in this process. */
export interface BlobDirectory {
  /** Holds `<key>.blob` files. Keys contain no dot, so a blob's file never collides with another blob's directory. */
  readonly blobs: string
  /** Holds files that are being written. On the same file system, because the rename must be atomic. */
  readonly temporary: string
  /** Names of files in `temporary` that this process is writing. */
  readonly writing: Set<string>
  /** Time of the last scan of `temporary`, in Unix milliseconds. */
  lookedThroughAt: number
}

export const BLOB_SUFFIX = ".blob"

/** Returns the path of a blob's file. */
export const fileOf = (directory: BlobDirectory, key: string): string => join(directory.blobs, key + BLOB_SUFFIX)

/** Returns the path of the directory that holds the blobs under `prefix/`. */
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

/** Syncs the directories above one that was just created: its entry and those of the directories below must survive a power failure. */
const syncUpwards = async (from: string, top: string): Promise<void> => {
  for (let path = from; ; path = dirname(path)) {
    try {
      await syncDirectory(path)
    } catch (error) {
      // Only a foreign directory above ours can be unreadable, and in that case nothing was created in it.
      if (path !== top || !hasCode(error, "EACCES", "EPERM")) throw error
    }
    if (path === top) return
  }
}

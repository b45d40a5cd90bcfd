import { access, type FileHandle, mkdir, open, rename, rmdir } from "node:fs/promises"
import { dirname } from "node:path"
import { BlobUnavailable, isError } from "@kiln/core/domain"
import { Effect } from "effect"

// Blobs are what customers said and had said to them: nobody else on the machine reads them.
export const DIRECTORY_MODE = 0o700
export const FILE_MODE = 0o600

/** Whatever the file system refuses is `BlobUnavailable`. Interruption does not stop the system call, only the wait for it. */
export const attempt = <A>(operation: string, run: () => Promise<A>): Effect.Effect<A, BlobUnavailable> =>
  Effect.tryPromise({ try: run, catch: (cause) => new BlobUnavailable({ operation, cause }) })

export const hasCode = (error: unknown, ...codes: ReadonlyArray<string>): boolean =>
  isError(error) && "code" in error && codes.includes(String(error.code))

/** A write may take a part only, when the disk fills up for instance; the next one then says why. */
export const writeAll = async (handle: Pick<FileHandle, "write">, bytes: Uint8Array): Promise<void> => {
  let written = 0
  while (written < bytes.length) written += (await handle.write(bytes, written)).bytesWritten
}

/** Shorter than `length` only where the file ends. */
export const readAt = async (
  handle: Pick<FileHandle, "read">,
  position: number,
  length: number,
): Promise<Uint8Array> => {
  const bytes = new Uint8Array(length)
  let read = 0
  while (read < length) {
    const { bytesRead } = await handle.read(bytes, read, length - read, position + read)
    if (bytesRead === 0) return bytes.subarray(0, read)
    read += bytesRead
  }
  return bytes
}

/** Makes the names in a directory durable. */
export const syncDirectory = async (path: string): Promise<void> => {
  const handle = await open(path, "r")
  try {
    await handle.sync()
  } catch (error) {
    // Some file systems cannot sync directories; they order or journal their names in their own way.
    if (!hasCode(error, "EINVAL", "ENOTSUP", "ENOSYS")) throw error
  } finally {
    await handle.close()
  }
}

// Each miss means that a directory was removed, as empty, right after it was made.
const MOVE_TRIES = 10

/**
 * Renames `from` to `to`, which is below `top`, making the directories between, and returns once all their
 * names are durable. Fails where `from` was removed. They are all synced, also those that were there: whoever made them may not have got so far.
 */
export const moveDurably = async (from: string, to: string, top: string): Promise<void> => {
  for (let tried = 1; ; tried++) {
    try {
      await mkdir(dirname(to), { recursive: true, mode: DIRECTORY_MODE })
      await rename(from, to)
      break
    } catch (error) {
      if (tried === MOVE_TRIES || !hasCode(error, "ENOENT")) throw error
      await access(from)
    }
  }
  for (let path = dirname(to); ; path = dirname(path)) {
    await syncDirectory(path)
    if (path === top) return
  }
}

/** Removes directories that are empty, from `path` up to `top` exclusive, and makes it durable that what was in them is gone. */
export const removeEmptyDirectories = async (path: string, top: string): Promise<void> => {
  for (let current = path; ; current = dirname(current)) {
    if (current !== top && (await isRemoved(current))) continue
    try {
      return await syncDirectory(current)
    } catch (error) {
      // Removed meanwhile by another `remove`, which may have got no further: go on from the one above.
      if (current === top || !hasCode(error, "ENOENT")) throw error
    }
  }
}

const isRemoved = async (path: string): Promise<boolean> => {
  try {
    await rmdir(path)
    return true
  } catch (error) {
    if (hasCode(error, "ENOENT")) return true
    if (hasCode(error, "ENOTEMPTY", "EEXIST")) return false
    throw error
  }
}

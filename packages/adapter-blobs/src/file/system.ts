import { existsSync, fstatSync, statSync } from "node:fs"
import { access, type FileHandle, mkdir, open, rename, rmdir } from "node:fs/promises"
import { dirname } from "node:path"
import { isError } from "@kiln/core/domain"

// Blobs hold customers' speech and texts, so other users of the machine must not read them.
export const DIRECTORY_MODE = 0o700
export const FILE_MODE = 0o600

export const hasCode = (error: unknown, ...codes: ReadonlyArray<string>): boolean =>
  isError(error) && "code" in error && codes.includes(String(error.code))

/** Writes all pieces. A single write may be partial, for instance when the disk fills up; the next one then fails with the reason. */
export const writeAll = async (
  handle: Pick<FileHandle, "writev">,
  pieces: ReadonlyArray<Uint8Array>,
): Promise<void> => {
  let rest = pieces
  for (;;) {
    rest = rest.filter((piece) => piece.length > 0)
    if (rest.length === 0) return
    let { bytesWritten } = await handle.writev(rest)
    rest = rest.map((piece) => {
      const unwritten = piece.subarray(bytesWritten)
      bytesWritten -= piece.length - unwritten.length
      return unwritten
    })
  }
}

/** Reads `length` bytes at a position; fewer only at the end of the file. */
export const readAt = async (
  handle: Pick<FileHandle, "read">,
  position: number,
  length: number,
): Promise<Uint8Array> => {
  // Not filled with zeros: only bytes that were read are returned.
  const bytes = Buffer.allocUnsafeSlow(length)
  let read = 0
  while (read < length) {
    const { bytesRead } = await handle.read(bytes, read, length - read, position + read)
    if (bytesRead === 0) return bytes.subarray(0, read)
    read += bytesRead
  }
  return bytes
}

// Each retry means that a directory was removed, because it was empty, right after it was created.
const MOVE_TRIES = 10

/**
 * Renames `from` to `to`, which is below `top`, and creates the directories in between, never `top` itself. Fails if `from` was removed.
 * Nothing of it is durable yet.
 */
export const moveBelow = async (from: string, to: string, top: string): Promise<void> => {
  for (let tried = 1; ; tried++) {
    try {
      return await rename(from, to)
    } catch (error) {
      if (tried === MOVE_TRIES || !hasCode(error, "ENOENT")) throw error
      await access(from)
      await makeBelow(top, dirname(to)).catch((failure: unknown) => {
        // A directory was removed meanwhile: the next rename fails, and tries again.
        if (!hasCode(failure, "ENOENT")) throw failure
      })
    }
  }
}

/** Creates the directories between `top` and `path`, and `path`, but not `top`. Fails with ENOENT if one is removed meanwhile. */
const makeBelow = async (top: string, path: string): Promise<void> => {
  if (path === top || (await made(path))) return
  await makeBelow(top, dirname(path))
  if (!(await made(path)))
    throw Object.assign(new Error(`${path} was removed while it was created`), { code: "ENOENT" })
}

/** Creates one directory. Returns false if the one above it is missing. */
const made = (path: string): Promise<boolean> =>
  mkdir(path, { mode: DIRECTORY_MODE }).then(
    () => true,
    (error: unknown) => {
      if (hasCode(error, "EEXIST")) return true
      if (hasCode(error, "ENOENT")) return false
      throw error
    },
  )

/**
 * Creates a directory, and those above it that are missing. Returns the first one that it created. The recursive `mkdir` of Node never
 * returns where the system refuses a directory with ENOENT, such as in `/proc`.
 */
export const makeDirectory = async (path: string): Promise<string | undefined> => {
  const parent = dirname(path)
  const firstMade = parent === path || existsSync(parent) ? undefined : await makeDirectory(parent)
  try {
    await mkdir(path, { mode: DIRECTORY_MODE })
  } catch (error) {
    // A link to a disk that is not mounted is in the way, and is said to be missing.
    const found = hasCode(error, "EEXIST") ? statSync(path) : statSync(path, { throwIfNoEntry: false })
    if (found?.isDirectory() !== true) throw error
    return firstMade
  }
  return firstMade ?? path
}

/** Removes empty directories from `path` up to `top` (exclusive), and makes the removal of their contents durable with `sync`. */
export const removeEmptyDirectories = async (
  path: string,
  top: string,
  sync: (path: string) => Promise<void>,
): Promise<void> => {
  for (let current = path; ; current = dirname(current)) {
    if (current !== top && (await isRemoved(current))) continue
    try {
      return await sync(current)
    } catch (error) {
      // Removed by a concurrent `remove`, which may have stopped here: continue with the parent.
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

/**
 * Runs a call for a path, at most one at a time, and lets callers share a run. Each caller gets the result of a run that began after it
 * asked, never of one that was already in progress: a sync makes durable only what was written before it began.
 */
export class SharedRuns<A> {
  readonly #run: (path: string) => Promise<A>
  /** Runs that have not begun. */
  readonly #next = new Map<string, Promise<A>>()
  /** The ends of the runs in progress. */
  readonly #inProgress = new Map<string, Promise<unknown>>()

  constructor(run: (path: string) => Promise<A>) {
    this.#run = run
  }

  of(path: string): Promise<A> {
    const joined = this.#next.get(path)
    if (joined !== undefined) return joined
    const next = (this.#inProgress.get(path) ?? Promise.resolve()).then(() => this.#begin(path))
    this.#next.set(path, next)
    return next
  }

  #begin(path: string): Promise<A> {
    this.#next.delete(path)
    const run = this.#run(path)
    const end = (): void => {
      if (!this.#next.has(path)) this.#inProgress.delete(path)
    }
    this.#inProgress.set(path, run.then(end, end))
    return run
  }
}

/** Tells a directory from another one that takes its place. */
type Identity = string

/** Syncs directories of one store. Callers share syncs. */
export class DirectorySyncs {
  /** The directory that is always there; its own entry is durable. */
  readonly #top: string
  readonly #syncs = new SharedRuns(syncDirectory)
  /** Directories whose own entries, up to `#top`, are durable. */
  readonly #durable = new Map<string, Identity>()

  constructor(top: string) {
    this.#top = top
  }

  /** Makes the entries of a directory durable. */
  async sync(path: string): Promise<void> {
    await this.#syncs.of(path)
  }

  /**
   * Makes the entries of a directory durable, and the directory itself: also if another process created it, which may not have synced
   * it yet. Later calls sync the directory only. `verify` runs before a directory counts as durable.
   */
  async syncWithPath(path: string, verify: () => Promise<void>): Promise<void> {
    const identity = await this.#syncs.of(path)
    if (path === this.#top || this.#durable.get(path) === identity) return
    for (let above = dirname(path); ; above = dirname(above)) {
      await this.#syncs.of(above)
      if (above === this.#top) break
    }
    await verify()
    this.#durable.set(path, identity)
  }
}

/** Makes the entries of a directory durable. Returns its identity. */
export const syncDirectory = async (path: string): Promise<Identity> => {
  const handle = await open(path, "r")
  try {
    // Of an open directory: the system has it at hand.
    const { birthtimeNs, dev, ino } = fstatSync(handle.fd, { bigint: true })
    await handle.sync()
    return `${dev} ${ino} ${birthtimeNs}`
  } catch (error) {
    // Some file systems cannot sync directories; they order or journal entries on their own.
    if (!hasCode(error, "EINVAL", "ENOTSUP", "ENOSYS")) throw error
    return ""
  } finally {
    await handle.close()
  }
}

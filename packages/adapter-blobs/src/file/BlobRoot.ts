import type { BigIntStats } from "node:fs"
import { readFile, stat, statfs, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describeDiskProblem, DiskProblem } from "@kiln/core/domain"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { FILE_MODE, hasCode } from "./system.ts"

/** Holds the identity of the store. Not a key, so no listing returns it. */
const NAME = ".store"

/**
 * The directory that holds the blobs, as it was when the store was opened. It is created only then. If it is gone or replaced later, because
 * its disk was unmounted or it was moved away, every operation fails until it is back: what is written to another directory would be
 * lost, and a removal there would count as done.
 */
export class BlobRoot {
  readonly #path: string
  readonly #shown: string
  #found: BigIntStats
  /** `undefined` where the file could not be written, as on a read-only disk. */
  readonly #id: string | undefined

  private constructor(path: string, shown: string, found: BigIntStats, id: string | undefined) {
    this.#path = path
    this.#shown = shown
    this.#found = found
    this.#id = id
  }

  /** `path` exists. `shown` is the name of the store in messages. */
  static async open(path: string, shown: string): Promise<BlobRoot> {
    const id = await identify(path)
    return new BlobRoot(path, shown, await stat(path, { bigint: true }), id)
  }

  /** Throws unless the directory is the one that was opened. */
  async expectPresent(): Promise<void> {
    let found: BigIntStats
    try {
      found = await stat(this.#path, { bigint: true })
    } catch (error) {
      throw hasCode(error, "ENOENT", "ENOTDIR") ? this.#gone(error) : error
    }
    const sameNumbers = found.ino === this.#found.ino && found.dev === this.#found.dev
    // Numbers are reused, so the time of creation counts too. Some file systems have none, and report the last change.
    if (sameNumbers && (this.#id === undefined || found.birthtimeNs === this.#found.birthtimeNs)) return
    // A disk that was mounted again may have other numbers.
    if (this.#id === undefined || (await readId(this.#path)) !== this.#id) throw this.#gone(undefined)
    this.#found = found
  }

  /** Explains an error of an operation in this directory. Returns it unchanged if it has nothing to do with the disk. */
  async explain(error: unknown): Promise<unknown> {
    const code = ["ENOSPC", "EDQUOT", "EROFS", "EIO"].find((known) => hasCode(error, known))
    if (code !== undefined) {
      const message = describeDiskProblem(code, { path: this.#shown, freeBytes: await freeBytesOf(this.#path) })
      return new DiskProblem(message ?? code, { cause: error, code, isFull: code === "ENOSPC" || code === "EDQUOT" })
    }
    if (!hasCode(error, "ENOENT", "ENOTDIR")) return error
    return this.expectPresent().then(
      () => error,
      (absence: unknown) => absence,
    )
  }

  #gone(cause: unknown): Error {
    return new Error(
      cause === undefined
        ? `the directory ${this.#shown} is not the blob store that this process opened: mount its disk or move it back, and this process continues`
        : `the blob store ${this.#shown} is gone: mount its disk or move it back, and this process continues; it creates no new one`,
      { cause },
    )
  }
}

const freeBytesOf = (path: string): Promise<number | undefined> =>
  statfs(path).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => undefined,
  )

const readId = async (path: string): Promise<string | undefined> => {
  try {
    const text = await readFile(join(path, NAME), "utf8")
    return text === "" ? undefined : text
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined
    throw error
  }
}

/**
 * Reads the identity, or writes one. Best effort, because a full or read-only store must open. Not synced: it only has to outlive the
 * processes that have read it, and a power failure does not.
 */
const identify = async (path: string): Promise<string | undefined> => {
  const known = await readId(path)
  if (known !== undefined) return known
  try {
    await writeFile(join(path, NAME), SecureRandom.uuidV4Unsafe(), { mode: FILE_MODE })
  } catch {
    return undefined
  }
  // Read again, because another process that starts at the same time may have written one too.
  return readId(path)
}

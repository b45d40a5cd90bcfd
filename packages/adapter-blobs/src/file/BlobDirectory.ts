import type { BigIntStats } from "node:fs"
import { mkdir, readdir, readFile, stat, statfs, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { BlobUnavailable, describeDiskProblem, DiskProblem } from "@kiln/core/domain"
import { DIRECTORY_MODE, DirectorySyncs, FILE_MODE, hasCode, SharedRuns, syncDirectory } from "./system.ts"

/** The directories of one store, and its state in this process. */
export interface BlobDirectory {
  /** Holds the files of blobs; see `layout.ts`. */
  readonly blobs: string
  /** Holds files that are being written. On the same file system, because the rename must be atomic. */
  readonly temporary: string
  readonly root: BlobRoot
  /** Checks that `root` is present. Concurrent puts share a check. */
  readonly presence: SharedRuns<void>
  readonly syncs: DirectorySyncs
  /** Reads the names in a directory. Concurrent removals share a scan. */
  readonly scans: SharedRuns<ReadonlyArray<string>>
  /** Names of files in `temporary` that this process is writing. */
  readonly writing: Set<string>
  /** Time of the last scan of `temporary`, in Unix milliseconds. */
  lookedThroughAt: number
}

export const openBlobDirectory = Effect.fnUntraced(function* (
  path: string,
): Effect.fn.Return<BlobDirectory, BlobUnavailable> {
  const base = resolve(path)
  const blobs = join(base, "blobs")
  const temporary = join(base, "tmp")
  return yield* Effect.tryPromise({
    try: async () => {
      const created = await mkdir(blobs, { recursive: true, mode: DIRECTORY_MODE })
      await mkdir(temporary, { recursive: true, mode: DIRECTORY_MODE })
      await syncUpwards(blobs, dirname(created ?? base))
      const root = await BlobRoot.open(blobs, base)
      return {
        blobs,
        temporary,
        root,
        presence: new SharedRuns(() => root.expectPresent()),
        syncs: new DirectorySyncs(blobs),
        scans: new SharedRuns(namesIn),
        writing: new Set<string>(),
        lookedThroughAt: -Infinity,
      }
    },
    catch: (cause) => new BlobUnavailable({ operation: "start", cause }),
  })
})

/** Returns the names in a directory; none if it does not exist. */
const namesIn = (path: string): Promise<ReadonlyArray<string>> =>
  readdir(path).catch((error: unknown) => {
    if (hasCode(error, "ENOENT")) return []
    throw error
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

/** Runs file system calls. Their errors become `BlobUnavailable`, explained. Interruption stops only the wait, not the system call. */
export const attempt = <A>(
  { root }: Pick<BlobDirectory, "root">,
  operation: string,
  run: () => Promise<A>,
): Effect.Effect<A, BlobUnavailable> =>
  Effect.tryPromise({
    try: () =>
      run().catch(async (error: unknown) => {
        throw await root.explain(error)
      }),
    catch: (cause) => new BlobUnavailable({ operation, cause }),
  })

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

import type { BigIntStats } from "node:fs"
import { mkdir, readdir, readFile, stat, statfs, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { BlobUnavailable, describeDiskProblem, DiskProblem, isBlobKey } from "@kiln/core/domain"
import {
  DIRECTORY_MODE,
  DirectorySyncs,
  FILE_MODE,
  hasCode,
  makeDirectory,
  SharedRuns,
  syncDirectory,
} from "./system.ts"
import { createHash } from "node:crypto"
import type { BlobInfo } from "@kiln/core/ports"

/** The directories of one store, and its state in this process. */
export interface BlobDirectory {
  /** Holds the files of blobs; see `fileOf`. */
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
      const created = await makeDirectory(blobs)
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

// A key of three parts or more is one file in a directory that it shares with other keys, a shard:
//
//   jobs/01k4xq7c…/1/audio   blobs/jobs/shard-7c/01k4xq7c….1.audio.blob
//
// So a put makes no directories, and puts at the same time share a sync. Shards are never removed. Shorter keys are files of their own
// name. Versions before shards wrote every key that way (`blobs/jobs/01k4xq7c…/1/audio.blob`); such files are still read, listed and
// removed. Keys contain neither dots nor dashes, so no two keys have the same file, and no part of a key is the name of a shard.
// Names are lower case; the longest is that of a temporary file, 42 characters more than the key.

const BLOB_SUFFIX = ".blob"

const isShard = (name: string): boolean => /^shard-[0-9a-z]{2}$/.test(name)

/**
 * Returns the name of an id's shard. An id begins with its creation time in milliseconds, ten characters of five bits, so these two
 * characters change every second and return to the same value after 17 minutes. Blobs that are written at the same time are mostly of
 * jobs created at the same time, so they share a shard and its syncs, as do blobs that retention removes at the same time; and over
 * time, blobs spread evenly over 1,024 shards.
 */
const shardOf = (id: string): string => `shard-${`${id}00000000`.slice(6, 8)}`

/** Returns the directory that a blob's file is in, and the file's name without its suffix. */
const placeOf = ({ blobs }: Pick<BlobDirectory, "blobs">, key: string) => {
  const [root = "", id = "", ...rest] = key.split("/")
  if (rest.length > 0) return { directory: join(blobs, root, shardOf(id)), name: [id, ...rest].join(".") }
  return id === "" ? { directory: blobs, name: root } : { directory: join(blobs, root), name: id }
}

/** Returns the path of the file to which a blob is written. */
export const fileOf = (directory: Pick<BlobDirectory, "blobs">, key: string): string => {
  const place = placeOf(directory, key)
  return join(place.directory, place.name + BLOB_SUFFIX)
}

/** Returns the path at which versions before shards stored a blob. The same as `fileOf` for keys of one or two parts. */
export const nestedFileOf = ({ blobs }: Pick<BlobDirectory, "blobs">, key: string): string =>
  join(blobs, key + BLOB_SUFFIX)

/** Returns the directory in which versions before shards stored the blobs under `prefix/`. */
export const nestedDirectoryOf = ({ blobs }: Pick<BlobDirectory, "blobs">, prefix: string): string =>
  join(blobs, prefix)

/** A shard, and which of its files belong to blobs under a prefix. */
export interface ShardView {
  readonly directory: string
  /** Returns whether a file's name is that of the blob `prefix`, or of one under `prefix/`. */
  readonly includes: (file: string) => boolean
}

/** Returns the only shard that may contain blobs under `prefix/`; `undefined` for a prefix of one part, whose blobs are in all of them. */
export const shardUnder = ({ blobs }: Pick<BlobDirectory, "blobs">, prefix: string): ShardView | undefined => {
  const [root = "", id, ...rest] = prefix.split("/")
  if (id === undefined) return undefined
  const name = [id, ...rest].join(".")
  return {
    directory: join(blobs, root, shardOf(id)),
    includes: (file) => file.startsWith(`${name}.`) && isBlobFile(file),
  }
}

/** Returns whether a file's name is that of a blob and not of a foreign file. */
const isBlobFile = (name: string): boolean => /^[0-9a-z]+(\.[0-9a-z]+)*\.blob$/.test(name)

/** An entry of a directory below `blobs/<prefix>`. */
export type Entry =
  | { readonly is: "key"; readonly key: string }
  | { readonly is: "shard" | "directory" | "foreign"; readonly key?: never }

/** Returns what an entry of the directory `blobs/<prefix>` is. */
export const entryOf = (prefix: string, name: string, isDirectory: boolean): Entry => {
  if (isDirectory) return { is: isShard(name) ? (prefix.includes("/") ? "foreign" : "shard") : "directory" }
  if (!name.endsWith(BLOB_SUFFIX)) return { is: "foreign" }
  const key = `${prefix}/${name.slice(0, -BLOB_SUFFIX.length)}`
  return isBlobKey(key) ? { is: "key", key } : { is: "foreign" }
}

/** Returns the key of a file in a shard of `root`; `undefined` for a foreign file. */
export const keyInShard = (root: string, name: string): string | undefined =>
  isBlobFile(name) ? `${root}/${name.slice(0, -BLOB_SUFFIX.length).replaceAll(".", "/")}` : undefined

// The last 64 bytes of a blob's file:
//
//   8  "kilnblb1"
//   8  length of the blob, big-endian
//  32  SHA-256 of the blob
//  16  SHA-256 of the 48 bytes above, truncated
//
// A footer rather than a header, so that files are written front to back and media players can open them as they are.
// Not a second file, because a crash or a restored backup may leave one without the other.

const MAGIC = Buffer.from("kilnblb1", "latin1")
const CHECKED_BYTES = 48
export const FOOTER_BYTES = 64

export const encodeFooter = ({ bytes, sha256 }: BlobInfo): Uint8Array => {
  const footer = Buffer.alloc(FOOTER_BYTES)
  MAGIC.copy(footer)
  footer.writeBigUInt64BE(BigInt(bytes), 8)
  footer.write(sha256, 16, "hex")
  checkOf(footer).copy(footer, CHECKED_BYTES)
  return footer
}

/** Decodes a footer; `undefined` if the bytes are not a valid footer. */
export const decodeFooter = (footer: Uint8Array): BlobInfo | undefined => {
  const view = Buffer.from(footer.buffer, footer.byteOffset, footer.byteLength)
  if (view.length !== FOOTER_BYTES || !view.subarray(0, 8).equals(MAGIC)) return undefined
  if (!view.subarray(CHECKED_BYTES).equals(checkOf(view))) return undefined
  return { bytes: Number(view.readBigUInt64BE(8)), sha256: view.toString("hex", 16, CHECKED_BYTES) }
}

const checkOf = (footer: Buffer): Buffer =>
  createHash("sha256")
    .update(footer.subarray(0, CHECKED_BYTES))
    .digest()
    .subarray(0, FOOTER_BYTES - CHECKED_BYTES)

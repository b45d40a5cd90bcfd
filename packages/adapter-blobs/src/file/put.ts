import { createHash } from "node:crypto"
import { type FileHandle, mkdir, open, readdir, rm, stat } from "node:fs/promises"
import { dirname, join } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { BlobTooLarge, type BlobUnavailable } from "@kiln/core/domain"
import { type BlobInfo, type BlobStore, releaseBytes, requireBlobKey, requireBlobLimit } from "@kiln/core/ports"
import { attempt, type BlobDirectory, encodeFooter, fileOf } from "./BlobDirectory.ts"
import { DIRECTORY_MODE, FILE_MODE, hasCode, moveBelow, writeAll } from "./system.ts"

export const put = (directory: BlobDirectory): BlobStore["Service"]["put"] =>
  Effect.fnUntraced(function* (key, content, { maxBytes }) {
    yield* requireBlobKey(key)
    yield* requireBlobLimit(maxBytes)
    yield* Effect.ignore(removeAbandoned(directory))
    return yield* Effect.acquireUseRelease(
      openDraft(directory, key),
      (draft) =>
        Effect.gen(function* () {
          const { info, rest } = yield* write(directory, draft.handle, content, maxBytes)
          yield* finish(directory, draft, [...rest, encodeFooter(info)])
          return info
        }),
      (draft, exit) =>
        Exit.isSuccess(exit)
          ? Effect.sync(() => directory.writing.delete(draft.name))
          : Effect.ignore(attempt(directory, "put", () => discard(directory, draft))),
    )
  })

/** A blob that is being written. */
interface Draft {
  readonly name: string
  readonly path: string
  readonly target: string
  readonly handle: FileHandle
  /** True once the blob may be readable under its key. */
  moving: boolean
}

const openDraft = (directory: BlobDirectory, key: string) =>
  attempt(directory, "put", async (): Promise<Draft> => {
    const name = temporaryName(key, SecureRandom.uuidV4Unsafe())
    const path = join(directory.temporary, name)
    await directory.presence.of(directory.blobs)
    const create = () => open(path, "wx", FILE_MODE)
    const handle = await create().catch(async (error: unknown) => {
      // The directory was removed from outside.
      if (!hasCode(error, "ENOENT")) throw error
      await directory.root.expectPresent()
      await mkdir(directory.temporary, { recursive: true, mode: DIRECTORY_MODE })
      return create()
    })
    directory.writing.add(name)
    return { name, path, target: fileOf(directory, key), handle, moving: false }
  })

/** Bytes that wait for more, or for the footer, and are then written with it in one call. */
const GATHERED_BYTES = 64 * 1024

/**
 * Writes what arrives together in one call, hashes it meanwhile, and only then pulls more. Few bytes are copied instead, to be written
 * with the next ones: the source may use its memory again. Returns those at the end that are not written yet.
 */
const write = Effect.fnUntraced(function* <E>(
  directory: BlobDirectory,
  handle: FileHandle,
  content: Stream.Stream<Uint8Array, E>,
  maxBytes: number,
) {
  const hash = createHash("sha256")
  let bytes = 0
  let gathered: Array<Uint8Array> = []
  let unwritten = 0
  yield* Stream.runForEachArray(content, (pieces): Effect.Effect<void, BlobTooLarge | BlobUnavailable> => {
    for (const piece of pieces) {
      bytes += piece.length
      unwritten += piece.length
    }
    if (bytes > maxBytes) return Effect.fail(new BlobTooLarge({ maxBytes }))
    if (unwritten <= GATHERED_BYTES) {
      for (const piece of pieces) {
        hash.update(piece)
        gathered.push(Uint8Array.from(piece))
        releaseBytes(piece)
      }
      return Effect.void
    }
    const together = [...gathered, ...pieces]
    gathered = []
    unwritten = 0
    return attempt(directory, "put", async () => {
      const writing = writeAll(handle, together)
      for (const piece of pieces) hash.update(piece)
      await writing
      for (const piece of pieces) releaseBytes(piece)
    })
  })
  return { info: { bytes, sha256: hash.digest("hex") } satisfies BlobInfo, rest: gathered }
})

/** Writes the end of the file, makes it durable, and moves it into place. */
const finish = Effect.fnUntraced(function* (directory: BlobDirectory, draft: Draft, end: ReadonlyArray<Uint8Array>) {
  yield* attempt(directory, "put", async () => {
    await writeAll(draft.handle, end)
    await draft.handle.sync()
    await draft.handle.close()
  })
  // Not interruptible: an interruption takes effect afterwards, and then removes the blob again.
  yield* Effect.uninterruptible(attempt(directory, "put", () => moveIntoPlace(directory, draft)))
})

const moveIntoPlace = async (directory: BlobDirectory, draft: Draft): Promise<void> => {
  draft.moving = true
  await moveBelow(draft.path, draft.target, directory.blobs)
  await directory.syncs.syncWithPath(dirname(draft.target), () => directory.root.expectPresent())
}

const discard = async (directory: BlobDirectory, draft: Draft): Promise<void> => {
  try {
    // Waits for an interrupted write to end.
    await draft.handle.close()
  } finally {
    await rm(draft.path, { force: true })
    directory.writing.delete(draft.name)
    if (draft.moving) {
      await rm(draft.target, { force: true })
      await directory.syncs.sync(dirname(draft.target))
    }
  }
}

// The name of a temporary file contains the blob's key (`jobs.a.1.output.<uuid>.part`), so that removing a prefix also
// finds the files a killed process left. Keys contain neither dots nor dashes, so a name cannot be mistaken for another key's.
const SUFFIX = ".part"

const baseOf = (key: string): string => `${key.replaceAll("/", ".")}.`

/** Only such a name is ours: `tmp` may hold other files, for example if the data directory is `/var`. */
const ours = /^[0-9a-z]+(\.[0-9a-z]+)*\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.part$/

const temporaryName = (key: string, uuid: string): string => baseOf(key) + uuid + SUFFIX

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

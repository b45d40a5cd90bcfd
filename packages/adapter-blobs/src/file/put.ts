import { createHash } from "node:crypto"
import { type FileHandle, mkdir, open, rm } from "node:fs/promises"
import { dirname, join } from "node:path"
import { BlobTooLarge, type BlobUnavailable } from "@kiln/core/domain"
import { type BlobInfo, type BlobStore, releaseBytes, requireBlobKey, requireBlobLimit } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { attempt, type BlobDirectory, fileOf } from "./BlobDirectory.ts"
import { encodeFooter } from "./Footer.ts"
import { DIRECTORY_MODE, FILE_MODE, hasCode, moveDurably, removeEmptyDirectories, writeAll } from "./system.ts"
import { removeAbandoned, temporaryName } from "./Temporary.ts"

export const put = (directory: BlobDirectory): BlobStore["Service"]["put"] =>
  Effect.fnUntraced(function* (key, content, { maxBytes }) {
    yield* requireBlobKey(key)
    yield* requireBlobLimit(maxBytes)
    yield* Effect.ignore(removeAbandoned(directory))
    return yield* Effect.acquireUseRelease(
      openDraft(directory, key),
      (draft) =>
        Effect.gen(function* () {
          const info = yield* write(directory, draft.handle, content, maxBytes)
          yield* attempt(directory, "put", () => finish(draft.handle, info))
          yield* moveIntoPlace(directory, draft)
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
    await directory.root.expectPresent()
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

/** Writes what arrives together in one call, hashes it meanwhile, and only then pulls more. */
const write = Effect.fnUntraced(function* <E>(
  directory: BlobDirectory,
  handle: FileHandle,
  content: Stream.Stream<Uint8Array, E>,
  maxBytes: number,
) {
  const hash = createHash("sha256")
  let bytes = 0
  yield* Stream.runForEachArray(content, (pieces): Effect.Effect<void, BlobTooLarge | BlobUnavailable> => {
    for (const piece of pieces) bytes += piece.length
    if (bytes > maxBytes) return Effect.fail(new BlobTooLarge({ maxBytes }))
    return attempt(directory, "put", async () => {
      const writing = writeAll(handle, pieces)
      for (const piece of pieces) hash.update(piece)
      await writing
      for (const piece of pieces) releaseBytes(piece)
    })
  })
  return { bytes, sha256: hash.digest("hex") } satisfies BlobInfo
})

const finish = async (handle: FileHandle, info: BlobInfo): Promise<void> => {
  await writeAll(handle, [encodeFooter(info)])
  await handle.sync()
  await handle.close()
}

/** Renames the blob into place. Not interruptible: an interruption takes effect afterwards, and then removes the blob again. */
const moveIntoPlace = (directory: BlobDirectory, draft: Draft) =>
  Effect.uninterruptible(
    attempt(directory, "put", () => {
      draft.moving = true
      return moveDurably(draft.path, draft.target, directory.blobs)
    }),
  )

const discard = async (directory: BlobDirectory, draft: Draft): Promise<void> => {
  try {
    // Waits for an interrupted write to end.
    await draft.handle.close()
  } finally {
    await rm(draft.path, { force: true })
    directory.writing.delete(draft.name)
    if (draft.moving) {
      await rm(draft.target, { force: true })
      await removeEmptyDirectories(dirname(draft.target), directory.blobs)
    }
  }
}

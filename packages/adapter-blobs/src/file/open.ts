import { createHash } from "node:crypto"
import { type FileHandle, open as openHandle } from "node:fs/promises"
import { BlobCorrupt, BlobNotFound, BlobUnavailable } from "@kiln/core/domain"
import {
  type BlobInfo,
  type BlobRange,
  type BlobSpan,
  blobSpanOf,
  type BlobStore,
  requireBlobKey,
  requireBlobRange,
} from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { READ_CHUNK_BYTES } from "../readChunk.ts"
import { attempt, type BlobDirectory, decodeFooter, fileOf, FOOTER_BYTES, nestedFileOf } from "./BlobDirectory.ts"
import { hasCode, readAt } from "./system.ts"

/**
 * Opens a blob. A small one is read at once, so its file is opened once. The file of a larger one is opened again when its content is
 * read, so a blob that is never read holds no descriptor.
 */
export const open = (directory: BlobDirectory): BlobStore["Service"]["open"] =>
  Effect.fnUntraced(function* (key: string, range?: BlobRange) {
    yield* requireBlobKey(key)
    yield* requireBlobRange(range)
    const { info, whole } = yield* Effect.scoped(openFile(directory, key, readSmall))
    const span = blobSpanOf(info.bytes, range)
    let small = whole
    const content = Stream.suspend(() => {
      // Its reader owns the bytes, so they are given away once.
      const bytes = small
      small = undefined
      return bytes === undefined
        ? Stream.unwrap(readContent(directory, key, info, span))
        : sliceOf(bytes, key, info, span)
    })
    return { ...info, content }
  })

/** Opens a file that closes with the scope, and begins to read it. Opening is not interruptible, because the descriptor would leak. */
const openFile = Effect.fnUntraced(function* <A extends object>(
  directory: BlobDirectory,
  key: string,
  begin: (handle: FileHandle) => Promise<A | undefined>,
) {
  const handle = yield* Effect.acquireRelease(
    Effect.mapError(
      attempt(directory, "open", () => openEither(directory, key)),
      (error) => (hasCode(error.cause, "ENOENT") ? new BlobNotFound({ key }) : error),
    ),
    (opened) => Effect.ignore(attempt(directory, "open", () => opened.close())),
  )
  const begun = yield* attempt(directory, "open", () => begin(handle))
  if (begun === undefined) return yield* Effect.fail(new BlobCorrupt({ key }))
  return { ...begun, handle }
})

/** Opens the file of a blob, or the one that a version before shards wrote. */
const openEither = async (directory: BlobDirectory, key: string): Promise<FileHandle> => {
  const file = fileOf(directory, key)
  try {
    return await openHandle(file, "r")
  } catch (error) {
    const nested = nestedFileOf(directory, key)
    if (nested === file || !hasCode(error, "ENOENT")) throw error
    return openHandle(nested, "r")
  }
}

/** Larger than the file of any blob that is read at once. */
const SMALL_FILE_BYTES = READ_CHUNK_BYTES + FOOTER_BYTES + 1
const FREE_BUFFERS = 4
const free: Array<Buffer> = []

/**
 * Reads the whole file, if it is small, in one call; of any other file, the footer. Returns `undefined` if the file has no valid footer,
 * or its length differs from the one in the footer.
 */
const readSmall = async (
  handle: FileHandle,
): Promise<{ readonly info: BlobInfo; readonly whole?: Uint8Array<ArrayBuffer> } | undefined> => {
  const buffer = free.pop() ?? Buffer.allocUnsafeSlow(SMALL_FILE_BYTES)
  try {
    const { bytesRead } = await handle.read(buffer, 0, SMALL_FILE_BYTES, 0)
    const bytes = bytesRead - FOOTER_BYTES
    if (bytesRead < SMALL_FILE_BYTES && bytes >= 0) {
      const info = decodeFooter(buffer.subarray(bytes, bytesRead))
      if (info?.bytes === bytes) return { info, whole: Uint8Array.from(buffer.subarray(0, bytes)) }
    }
  } finally {
    if (free.length < FREE_BUFFERS) free.push(buffer)
  }
  // Large, damaged, or the call returned less than there is.
  return readInfo(handle)
}

/** Reads the footer; `undefined` if the file has no valid footer, or its length differs from the one in the footer. */
const readInfo = async (handle: FileHandle): Promise<{ readonly info: BlobInfo } | undefined> => {
  const { size } = await handle.stat()
  if (size < FOOTER_BYTES) return undefined
  const info = decodeFooter(await readAt(handle, size - FOOTER_BYTES, FOOTER_BYTES))
  return info !== undefined && info.bytes + FOOTER_BYTES === size ? { info } : undefined
}

/** Returns the part of a blob that was read whole. */
const sliceOf = (bytes: Uint8Array, key: string, info: BlobInfo, { from, to, whole }: BlobSpan) => {
  if (whole && createHash("sha256").update(bytes).digest("hex") !== info.sha256)
    return Stream.fail(new BlobCorrupt({ key }))
  return from === to ? Stream.empty : Stream.succeed(bytes.subarray(from, to))
}

const readContent = Effect.fnUntraced(function* (
  directory: BlobDirectory,
  key: string,
  info: BlobInfo,
  span: BlobSpan,
) {
  const opened = yield* openFile(directory, key, readInfo).pipe(
    Effect.catchTag("BlobNotFound", (cause) => Effect.fail(new BlobUnavailable({ operation: "open", cause }))),
  )
  if (opened.info.sha256 !== info.sha256) return yield* Effect.fail(new BlobCorrupt({ key }))
  return readSpan(opened.handle, key, info, span)
})

const readSpan = (handle: FileHandle, key: string, info: BlobInfo, span: BlobSpan) =>
  Stream.fromAsyncIterable(piecesOf(handle, key, info, span), (cause) =>
    cause instanceof BlobCorrupt ? cause : new BlobUnavailable({ operation: "open", cause }),
  )

/** Reads the next piece while one is hashed and used. */
async function* piecesOf(handle: FileHandle, key: string, info: BlobInfo, { from, to, whole }: BlobSpan) {
  const hash = whole ? createHash("sha256") : undefined
  for (let start = from, reading = readPiece(handle, start, to); ;) {
    const end = Math.min(start + READ_CHUNK_BYTES, to)
    const piece = await reading
    if (piece.length < end - start) throw new BlobCorrupt({ key })
    start = end
    reading = readPiece(handle, start, to)
    hash?.update(piece)
    // Check before the last piece is emitted: a reader that counts bytes stops there.
    if (end === to && hash !== undefined && hash.digest("hex") !== info.sha256) throw new BlobCorrupt({ key })
    if (piece.length > 0) yield piece
    if (end === to) return
  }
}

/** Starts reading a piece. A failure that nobody awaits is ignored: the reader has stopped. */
const readPiece = (handle: FileHandle, start: number, to: number): Promise<Uint8Array> => {
  const reading = readAt(handle, start, Math.min(READ_CHUNK_BYTES, to - start))
  reading.catch(() => undefined)
  return reading
}

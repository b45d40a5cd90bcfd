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
import { attempt, type BlobDirectory, fileOf } from "./BlobDirectory.ts"
import { decodeFooter, FOOTER_BYTES } from "./Footer.ts"
import { hasCode, readAt } from "./system.ts"

/** Opens a blob. The file is opened again when its content is read, so a blob that is never read holds no descriptor. */
export const open = (directory: BlobDirectory): BlobStore["Service"]["open"] =>
  Effect.fnUntraced(function* (key: string, range?: BlobRange) {
    yield* requireBlobKey(key)
    yield* requireBlobRange(range)
    const { info } = yield* Effect.scoped(openFile(directory, key))
    const span = blobSpanOf(info.bytes, range)
    return { ...info, content: Stream.unwrap(readContent(directory, key, info, span)) }
  })

/** Opens a file that closes with the scope. Opening is not interruptible, because the descriptor would leak. */
const openFile = Effect.fnUntraced(function* (directory: BlobDirectory, key: string) {
  const handle = yield* Effect.acquireRelease(
    Effect.mapError(
      attempt(directory, "open", () => openHandle(fileOf(directory, key), "r")),
      (error) => (hasCode(error.cause, "ENOENT") ? new BlobNotFound({ key }) : error),
    ),
    (opened) => Effect.ignore(attempt(directory, "open", () => opened.close())),
  )
  const info = yield* attempt(directory, "open", () => readInfo(handle))
  if (info === undefined) return yield* Effect.fail(new BlobCorrupt({ key }))
  return { handle, info }
})

/** Reads the footer; `undefined` if the file has no valid footer, or its length differs from the one in the footer. */
const readInfo = async (handle: FileHandle): Promise<BlobInfo | undefined> => {
  const { size } = await handle.stat()
  if (size < FOOTER_BYTES) return undefined
  const info = decodeFooter(await readAt(handle, size - FOOTER_BYTES, FOOTER_BYTES))
  return info !== undefined && info.bytes + FOOTER_BYTES === size ? info : undefined
}

const readContent = Effect.fnUntraced(function* (
  directory: BlobDirectory,
  key: string,
  info: BlobInfo,
  span: BlobSpan,
) {
  const opened = yield* openFile(directory, key).pipe(
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

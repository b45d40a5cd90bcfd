import { createHash } from "node:crypto"
import { type FileHandle, open as openHandle } from "node:fs/promises"
import { BlobCorrupt, BlobNotFound, BlobUnavailable } from "@kiln/core/domain"
import type { BlobInfo, BlobRange, BlobStore } from "@kiln/core/ports"
import { Effect, Option, Stream } from "effect"
import { requireBlobKey, requireRange } from "../arguments.ts"
import { READ_CHUNK_BYTES, type Span, spanOf } from "../Span.ts"
import { type BlobDirectory, fileOf } from "./BlobDirectory.ts"
import { decodeFooter, FOOTER_BYTES } from "./Footer.ts"
import { attempt, hasCode, readAt } from "./system.ts"

/** The file is opened again when its content is read, so that a blob opened and never read holds nothing. */
export const open = (directory: BlobDirectory): BlobStore["Service"]["open"] =>
  Effect.fnUntraced(function* (key: string, range?: BlobRange) {
    yield* requireBlobKey(key)
    yield* requireRange(range)
    const { info } = yield* Effect.scoped(openFile(directory, key))
    const span = spanOf(info.bytes, range)
    return { ...info, content: Stream.unwrap(readContent(directory, key, info, span)) }
  })

/** Closed with the scope; opening cannot be interrupted, or the descriptor would be lost. */
const openFile = Effect.fnUntraced(function* (directory: BlobDirectory, key: string) {
  const handle = yield* Effect.acquireRelease(
    Effect.mapError(
      attempt("open", () => openHandle(fileOf(directory, key), "r")),
      (error) => (hasCode(error.cause, "ENOENT") ? new BlobNotFound({ key }) : error),
    ),
    (opened) => Effect.ignore(attempt("open", () => opened.close())),
  )
  const info = yield* attempt("open", () => readInfo(handle))
  if (info === undefined) return yield* Effect.fail(new BlobCorrupt({ key }))
  return { handle, info }
})

/** `undefined` where the file does not end in a footer, or is not as long as its footer says. */
const readInfo = async (handle: FileHandle): Promise<BlobInfo | undefined> => {
  const { size } = await handle.stat()
  if (size < FOOTER_BYTES) return undefined
  const info = decodeFooter(await readAt(handle, size - FOOTER_BYTES, FOOTER_BYTES))
  return info !== undefined && info.bytes + FOOTER_BYTES === size ? info : undefined
}

const readContent = Effect.fnUntraced(function* (directory: BlobDirectory, key: string, info: BlobInfo, span: Span) {
  const opened = yield* openFile(directory, key).pipe(
    Effect.catchTag("BlobNotFound", (cause) => Effect.fail(new BlobUnavailable({ operation: "open", cause }))),
  )
  if (opened.info.sha256 !== info.sha256) return yield* Effect.fail(new BlobCorrupt({ key }))
  return readSpan(opened.handle, key, info, span)
})

const readSpan = (handle: FileHandle, key: string, info: BlobInfo, { from, to, whole }: Span) => {
  const hash = whole ? createHash("sha256") : undefined
  return Stream.paginate(from, (position) =>
    Effect.gen(function* () {
      const next = Math.min(position + READ_CHUNK_BYTES, to)
      const last = next === to
      const chunk = yield* attempt("open", () => readAt(handle, position, next - position))
      if (chunk.length < next - position) return yield* Effect.fail(new BlobCorrupt({ key }))
      hash?.update(chunk)
      // Before the last chunk is handed out: who waits for a number of bytes takes that for the end.
      if (last && hash !== undefined && hash.digest("hex") !== info.sha256)
        return yield* Effect.fail(new BlobCorrupt({ key }))
      return [chunk.length > 0 ? [chunk] : [], last ? Option.none() : Option.some(next)] as const
    }),
  )
}

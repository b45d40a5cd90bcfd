import { createHash } from "node:crypto"
import { type BlobInfo, type BlobRange, blobSpanOf, BlobStore, requireBlobKey } from "@kiln/core/ports"
import { BlobNotFound, BlobTooLarge } from "@kiln/core/domain"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

/** The reference behavior of `BlobStore`, in one process's memory. Nothing survives the process. */
export const MemoryBlobStore = {
  /** Each build is a fresh, empty store. */
  layer: Layer.effect(
    BlobStore,
    Effect.sync(() => makeMemoryBlobStore(new Map())),
  ),
}

/**
 * Creates a blob store over a map. A blob appears atomically once all of it has arrived, and is replaced and removed as a whole.
 */
export const makeMemoryBlobStore = (
  blobs: Map<string, { readonly bytes: Uint8Array; readonly info: BlobInfo }>,
): BlobStore["Service"] =>
  BlobStore.of({
    put: Effect.fnUntraced(function* (key, content, { maxBytes }) {
      yield* requireBlobKey(key)
      const bytes = yield* collect(content, maxBytes)
      const info = { bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") }
      blobs.set(key, { bytes, info })
      return info
    }),

    open: Effect.fnUntraced(function* (key: string, range?: BlobRange) {
      yield* requireBlobKey(key)
      const stored = blobs.get(key)
      if (stored === undefined) return yield* Effect.fail(new BlobNotFound({ key }))
      const { bytes, info } = stored
      const { from, to } = blobSpanOf(bytes.length, range)
      return { ...info, content: copiesOf(bytes.subarray(from, to)) }
    }),

    remove: Effect.fnUntraced(function* (prefix) {
      yield* requireBlobKey(prefix)
      for (const key of blobs.keys()) if (key === prefix || key.startsWith(`${prefix}/`)) blobs.delete(key)
    }),

    list: (prefix) =>
      Stream.fromIterableEffect(
        Effect.map(requireBlobKey(prefix), () => [...blobs.keys()].filter((key) => key.startsWith(`${prefix}/`))),
      ),
  })

/** Copies the content, because a source may reuse one buffer for all its chunks. */
const collect = Effect.fnUntraced(function* <E>(content: Stream.Stream<Uint8Array, E>, maxBytes: number) {
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  yield* Stream.runForEach(content, (chunk) =>
    Effect.gen(function* () {
      bytes += chunk.length
      if (bytes > maxBytes) return yield* Effect.fail(new BlobTooLarge({ maxBytes }))
      chunks.push(Uint8Array.from(chunk))
    }),
  )
  return new Uint8Array(Buffer.concat(chunks, bytes))
})

const CHUNK_BYTES = 64 * 1024

/** Copies the bytes, because a reader may write into them. */
const copiesOf = (bytes: Uint8Array): Stream.Stream<Uint8Array> =>
  Stream.unfold(0, (position) =>
    Effect.sync(() =>
      position < bytes.length
        ? ([bytes.slice(position, position + CHUNK_BYTES), position + CHUNK_BYTES] as const)
        : undefined,
    ),
  )

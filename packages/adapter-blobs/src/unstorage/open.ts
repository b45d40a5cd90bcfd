import { createHash } from "node:crypto"
import { BlobCorrupt, BlobNotFound, BlobUnavailable } from "@kiln/core/domain"
import {
  type BlobRange,
  type BlobSpan,
  blobSpanOf,
  type BlobStore,
  requireBlobKey,
  requireBlobRange,
} from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { READ_CHUNK_BYTES } from "../readChunk.ts"
import { type Items, itemsOf } from "./Items.ts"
import { chunkKey } from "./itemKeys.ts"
import { type Manifest, readManifest } from "./Manifest.ts"
import type { UnstorageLike } from "./UnstorageLike.ts"

export const open = (storage: UnstorageLike): BlobStore["Service"]["open"] => {
  const items = itemsOf(storage, "open")
  return Effect.fnUntraced(function* (key: string, range?: BlobRange) {
    yield* requireBlobKey(key)
    yield* requireBlobRange(range)
    const manifest = yield* readManifest(items, key)
    if (manifest === undefined) return yield* Effect.fail(new BlobNotFound({ key }))
    const { bytes, sha256 } = manifest
    return { bytes, sha256, content: readSpan(items, key, manifest, blobSpanOf(bytes, range)) }
  })
}

/** Fetches one chunk at a time, and only chunks that the span touches. */
const readSpan = (items: Items, key: string, manifest: Manifest, { from, to, whole }: BlobSpan) =>
  Stream.suspend(() => {
    if (from === to && manifest.bytes > 0) return Stream.empty
    const hash = whole ? createHash("sha256") : undefined
    const { chunkBytes } = manifest
    return Stream.paginate(Math.floor(from / chunkBytes), (index) =>
      Effect.gen(function* () {
        const start = index * chunkBytes
        const last = start + chunkBytes >= to
        const chunk = start < manifest.bytes ? yield* readChunk(items, key, manifest, index) : new Uint8Array(0)
        hash?.update(chunk)
        if (last && hash !== undefined && hash.digest("hex") !== manifest.sha256)
          return yield* Effect.fail(new BlobCorrupt({ key }))
        const wanted = chunk.subarray(Math.max(from - start, 0), Math.min(to - start, chunkBytes))
        return [copiesOf(wanted), last ? Option.none() : Option.some(index + 1)] as const
      }),
    )
  })

const readChunk = Effect.fnUntraced(function* (items: Items, key: string, manifest: Manifest, index: number) {
  const chunk = yield* items.read(chunkKey(key, manifest.writeId, index))
  if (chunk !== undefined) {
    const expected = Math.min(manifest.chunkBytes, manifest.bytes - index * manifest.chunkBytes)
    if (chunk.length === expected && createHash("sha256").update(chunk).digest("hex") === manifest.chunks[index])
      return chunk
    return yield* Effect.fail(new BlobCorrupt({ key }))
  }
  // Removed while it was read, or lost?
  const still = yield* readManifest(items, key)
  if (still?.writeId === manifest.writeId) return yield* Effect.fail(new BlobCorrupt({ key }))
  return yield* Effect.fail(new BlobUnavailable({ operation: "open", cause: new BlobNotFound({ key }) }))
})

/** Splits into copies, because the driver may still own the bytes. */
const copiesOf = (bytes: Uint8Array): Array<Uint8Array> => {
  const copies: Array<Uint8Array> = []
  for (let from = 0; from < bytes.length; from += READ_CHUNK_BYTES)
    copies.push(Uint8Array.from(bytes.subarray(from, from + READ_CHUNK_BYTES)))
  return copies
}

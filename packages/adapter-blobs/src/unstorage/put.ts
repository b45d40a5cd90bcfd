import { createHash } from "node:crypto"
import { BlobTooLarge, type BlobUnavailable } from "@kiln/core/domain"
import { type BlobStore, requireBlobKey, requireBlobLimit } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { type Items, itemsOf } from "./Items.ts"
import { chunkKey, manifestKey } from "./itemKeys.ts"
import { encodeManifest } from "./Manifest.ts"
import type { UnstorageLike } from "./UnstorageLike.ts"

export const put = (storage: UnstorageLike, chunkBytes: number): BlobStore["Service"]["put"] => {
  const items = itemsOf(storage, "put")
  return Effect.fnUntraced(function* (key, content, { maxBytes }) {
    yield* requireBlobKey(key)
    yield* requireBlobLimit(maxBytes)
    return yield* Effect.acquireUseRelease(
      Effect.sync(() => newDraft(key, chunkBytes)),
      (draft) => write(items, draft, content, maxBytes),
      (draft, exit) => (Exit.isSuccess(exit) ? Effect.void : discard(items, draft)),
    )
  })
}

/** A blob that is being written. */
interface Draft {
  readonly key: string
  readonly writeId: string
  readonly chunkBytes: number
  /** SHA-256 of each chunk whose write has begun. */
  readonly chunks: Array<string>
  /** The chunk being filled, of `chunkBytes`. Passed to the driver when full, which may keep it. */
  buffer: Uint8Array
  filled: number
  /** True once the blob may be readable. */
  published: boolean
}

const newDraft = (key: string, chunkBytes: number): Draft => ({
  key,
  writeId: SecureRandom.uuidV4Unsafe(),
  chunkBytes,
  chunks: [],
  buffer: new Uint8Array(chunkBytes),
  filled: 0,
  published: false,
})

const write = Effect.fnUntraced(function* <E>(
  items: Items,
  draft: Draft,
  content: Stream.Stream<Uint8Array, E>,
  maxBytes: number,
) {
  const hash = createHash("sha256")
  let bytes = 0
  yield* Stream.runForEach(content, (part) =>
    Effect.gen(function* () {
      bytes += part.length
      if (bytes > maxBytes) return yield* Effect.fail(new BlobTooLarge({ maxBytes }))
      hash.update(part)
      return yield* append(items, draft, part)
    }),
  )
  if (draft.filled > 0) yield* writeChunk(items, draft, draft.buffer.slice(0, draft.filled))
  const info = { bytes, sha256: hash.digest("hex") }
  const { writeId, chunkBytes, chunks } = draft
  const manifest = encodeManifest({ version: 1, writeId, ...info, chunkBytes, chunks })
  draft.published = true
  yield* items.write(manifestKey(draft.key), manifest)
  return info
})

const append = Effect.fnUntraced(function* (
  items: Items,
  draft: Draft,
  part: Uint8Array,
): Effect.fn.Return<void, BlobUnavailable> {
  let taken = 0
  while (taken < part.length) {
    const next = part.subarray(taken, taken + draft.chunkBytes - draft.filled)
    draft.buffer.set(next, draft.filled)
    draft.filled += next.length
    taken += next.length
    if (draft.filled === draft.chunkBytes) {
      const full = draft.buffer
      draft.buffer = new Uint8Array(draft.chunkBytes)
      draft.filled = 0
      yield* writeChunk(items, draft, full)
    }
  }
})

const writeChunk = (items: Items, draft: Draft, chunk: Uint8Array) =>
  Effect.suspend(() => {
    const index = draft.chunks.push(createHash("sha256").update(chunk).digest("hex")) - 1
    return items.write(chunkKey(draft.key, draft.writeId, index), chunk)
  })

/** Removes the items of a failed put, best effort: leftovers are not readable, and removing their prefix deletes them. */
const discard = (items: Items, draft: Draft): Effect.Effect<void> =>
  Effect.gen(function* () {
    if (draft.published) yield* Effect.ignore(items.remove(manifestKey(draft.key)))
    yield* Effect.forEach(
      draft.chunks,
      (_, index) => Effect.ignore(items.remove(chunkKey(draft.key, draft.writeId, index))),
      { discard: true, concurrency: 4 },
    )
  })

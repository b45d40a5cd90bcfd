import { createHash } from "node:crypto"
import { type BlobStore, requireBlobKey, requireBlobLimit, pieceWriter } from "@kiln/core/ports"
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
      Effect.sync(() => newDraft(key)),
      (draft) => write(items, draft, content, { maxBytes, chunkBytes }),
      (draft, exit) => (Exit.isSuccess(exit) ? Effect.void : discard(items, draft)),
    )
  })
}

/** A blob that is being written. */
interface Draft {
  readonly key: string
  readonly writeId: string
  /** SHA-256 of each chunk whose write has begun. */
  readonly chunks: Array<string>
  /** True once the blob may be readable. */
  published: boolean
}

const newDraft = (key: string): Draft => ({
  key,
  writeId: SecureRandom.uuidV4Unsafe(),
  chunks: [],
  published: false,
})

const write = Effect.fnUntraced(function* <E>(
  items: Items,
  draft: Draft,
  content: Stream.Stream<Uint8Array, E>,
  { chunkBytes, maxBytes }: { readonly chunkBytes: number; readonly maxBytes: number },
) {
  const hash = createHash("sha256")
  const writer = pieceWriter({
    maxBytes,
    pieceBytes: chunkBytes,
    hash,
    write: (chunk) => writeChunk(items, draft, chunk),
  })
  yield* Stream.runForEach(content, writer.append)
  const { bytes, last } = writer.end()
  if (last.length > 0) yield* writeChunk(items, draft, last)
  const info = { bytes, sha256: hash.digest("hex") }
  const { writeId, chunks } = draft
  const manifest = yield* encodeManifest({ version: 1, writeId, ...info, chunkBytes, chunks })
  draft.published = true
  yield* items.write(manifestKey(draft.key), manifest)
  return info
})

const writeChunk = (items: Items, draft: Draft, piece: Uint8Array) =>
  Effect.suspend(() => {
    // A copy of its own, because a driver may keep it.
    const chunk = piece.slice()
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

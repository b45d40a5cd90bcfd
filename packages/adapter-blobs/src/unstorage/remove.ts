import { type BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { type Items, itemsOf } from "./Items.ts"
import { baseOf, blobOfManifest, chunkKey, manifestKey } from "./itemKeys.ts"
import { readManifest } from "./Manifest.ts"
import type { UnstorageLike } from "./UnstorageLike.ts"

/**
 * Removes manifests first, so that no blob stays partly readable; then chunks, including those that a killed put left
 * without a manifest. Verifies the removal of each item.
 */
export const remove = (storage: UnstorageLike): BlobStore["Service"]["remove"] => {
  const items = itemsOf(storage, "remove")
  const removeAll = (keys: Iterable<string>) =>
    Effect.forEach(keys, items.remove, { discard: true, concurrency: CONCURRENCY })
  return Effect.fnUntraced(function* (prefix) {
    yield* requireBlobKey(prefix)
    const listed = yield* items.keys(baseOf(prefix))
    const blobs = new Set([prefix, ...listed.flatMap((key) => blobOfManifest(key) ?? [])])
    const chunks = yield* Effect.forEach(blobs, (key) => chunksOf(items, key), { concurrency: CONCURRENCY })
    const manifests = new Set([...blobs].map(manifestKey))
    yield* removeAll(manifests)
    yield* removeAll(new Set([...chunks.flat(), ...listed.filter((key) => !manifests.has(key))]))
  })
}

const CONCURRENCY = 8

/** Returns the chunks that the manifest names, because a listing may lag; empty if the manifest cannot be read. */
const chunksOf = (items: Items, key: string) =>
  readManifest(items, key).pipe(
    Effect.catchTag("BlobCorrupt", () => Effect.undefined),
    Effect.map((manifest) =>
      manifest === undefined ? [] : manifest.chunks.map((_, index) => chunkKey(key, manifest.writeId, index)),
    ),
  )

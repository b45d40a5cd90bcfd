import { type BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { itemsOf } from "./Items.ts"
import { baseOf, blobOfManifest } from "./itemKeys.ts"
import type { UnstorageLike } from "./UnstorageLike.ts"

/** Lists keys. Drivers return complete listings, so this holds all keys in memory. */
export const list = (storage: UnstorageLike): BlobStore["Service"]["list"] => {
  const items = itemsOf(storage, "list")
  return (prefix) =>
    Stream.fromIterableEffect(
      requireBlobKey(prefix).pipe(
        Effect.andThen(items.keys(baseOf(prefix))),
        Effect.map((keys) => keys.flatMap((key) => blobOfManifest(key) ?? []).filter((key) => key !== prefix)),
      ),
    )
}

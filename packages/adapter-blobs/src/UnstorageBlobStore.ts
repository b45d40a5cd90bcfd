import type { BlobUnavailable } from "@kiln/core/domain"
import { BlobStore } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { writeSentinel } from "./unstorage/Items.ts"
import { list } from "./unstorage/list.ts"
import { open } from "./unstorage/open.ts"
import { probeListing } from "./unstorage/probeListing.ts"
import { put } from "./unstorage/put.ts"
import { refuseDriver } from "./unstorage/refuseDriver.ts"
import { remove } from "./unstorage/remove.ts"
import type { UnstorageLike } from "./unstorage/UnstorageLike.ts"

const DEFAULT_CHUNK_BYTES = 1024 * 1024

export interface UnstorageBlobOptions {
  readonly storage: UnstorageLike
  /**
   * Maximum length of an item in bytes; 1 MiB by default. Each put holds one item in memory. Blobs written with another
   * length stay readable.
   */
  readonly chunkBytes?: number | undefined
}

/**
 * Stores blobs in any unstorage instance: first the chunks, then a manifest with their digests. Each write is read back
 * and each removal verified, which about doubles the traffic.
 *
 * Durability depends on the driver: the `fs` driver, for instance, does not sync (`FileBlobStore` does). Chunks of
 * a put whose process was killed are neither readable nor listed; removing a prefix of their key deletes them.
 */
export const UnstorageBlobStore = {
  /**
   * Fails with `BlobUnavailable` if the driver does not read back or list the items written to it. Drivers known not to list
   * all items (`s3`, for example) are refused by name; for others, the first start on a storage writes, lists and removes
   * 1,001 small items, because some list only one page.
   */
  layer: (options: UnstorageBlobOptions): Layer.Layer<BlobStore, BlobUnavailable> =>
    Layer.effect(
      BlobStore,
      Effect.gen(function* () {
        const { storage, chunkBytes = DEFAULT_CHUNK_BYTES } = options
        yield* refuseDriver(storage)
        yield* writeSentinel(storage)
        yield* probeListing(storage)
        return BlobStore.of({
          put: put(storage, chunkBytes),
          open: open(storage),
          remove: remove(storage),
          list: list(storage),
        })
      }),
    ),
}

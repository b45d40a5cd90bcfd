import type { BlobUnavailable } from "@kiln/core/domain"
import { BlobStore } from "@kiln/core/ports"
import { Effect, Layer } from "effect"
import { writeSentinel } from "./unstorage/Items.ts"
import { list } from "./unstorage/list.ts"
import { open } from "./unstorage/open.ts"
import { probeListing } from "./unstorage/probeListing.ts"
import { put } from "./unstorage/put.ts"
import { remove } from "./unstorage/remove.ts"
import type { UnstorageLike } from "./unstorage/UnstorageLike.ts"

const DEFAULT_CHUNK_BYTES = 1024 * 1024

export interface UnstorageBlobOptions {
  readonly storage: UnstorageLike
  /** How long an item may be, 1 MiB by default; each put holds one in memory. Blobs written with another length stay readable. */
  readonly chunkBytes?: number | undefined
}

/**
 * Blobs in any unstorage instance: chunks, and last a manifest with their digests. Each write is read back and each
 * removal verified, at the price of about twice the traffic.
 *
 * How durable a blob is, is the driver's: its `fs` driver, for instance, does not sync (`FileBlobStore` does). Chunks of
 * a put whose process was killed are not readable and not listed; they go when a prefix of their key is removed.
 */
export const UnstorageBlobStore = {
  /**
   * Fails with `BlobUnavailable` where the driver does not read back or list what it was given. The first start on a storage
   * writes, lists and removes 1,001 small items, because some drivers (that for S3, for one) list no more than a page.
   */
  layer: (options: UnstorageBlobOptions): Layer.Layer<BlobStore, BlobUnavailable> =>
    Layer.effect(
      BlobStore,
      Effect.map(Effect.andThen(writeSentinel(options.storage), probeListing(options.storage)), () => {
        const { storage, chunkBytes = DEFAULT_CHUNK_BYTES } = options
        return BlobStore.of({
          put: put(storage, chunkBytes),
          open: open(storage),
          remove: remove(storage),
          list: list(storage),
        })
      }),
    ),
}

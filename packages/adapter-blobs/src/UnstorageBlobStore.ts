import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { BlobUnavailable, type OptionNames, requireNumber, requireOptions } from "@kiln/core/domain"
import { type BlobAdapter, blobAdapter, BlobStore, requireBlobKey } from "@kiln/core/ports"
import { itemsOf, writeSentinel } from "./unstorage/Items.ts"
import { open } from "./unstorage/open.ts"
import { probeListing } from "./unstorage/probeListing.ts"
import { put } from "./unstorage/put.ts"
import { remove } from "./unstorage/remove.ts"
import type { UnstorageLike } from "./unstorage/UnstorageLike.ts"
import { baseOf, blobOfManifest } from "./unstorage/itemKeys.ts"

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

/** Drivers of unstorage that are known not to list all items. */
const refused: ReadonlyMap<string, string> = new Map([
  ["null", "it stores nothing"],
  ["s3", "it lists at most 1,000"],
  ["uploadthing", "it lists one page"],
  ["vercel-runtime-cache", "it lists none"],
])

/** Fails with the driver's name and the remedy, without writing to the storage. Unknown drivers are probed afterwards. */
const refuseDriver = (storage: UnstorageLike): Effect.Effect<void, BlobUnavailable> => {
  const name = storage.getMount?.("").driver.name
  const reason = name === undefined ? undefined : refused.get(name)
  if (reason === undefined) return Effect.void
  const cause = new Error(
    `unstorage's ${name} driver does not list all of its items (${reason}): use KILN_BLOBS=s3://bucket/prefix (S3BlobStore), ` +
      "KILN_BLOBS=file:/a/directory (FileBlobStore), or a driver that lists all keys",
  )
  return Effect.fail(new BlobUnavailable({ operation: "start", cause }))
}

/** Lists keys. Drivers return complete listings, so this holds all keys in memory. */
const list = (storage: UnstorageLike): BlobStore["Service"]["list"] => {
  const items = itemsOf(storage, "list")
  return (prefix) =>
    Stream.fromIterableEffect(
      requireBlobKey(prefix).pipe(
        Effect.andThen(items.keys(baseOf(prefix))),
        Effect.map((keys) => keys.flatMap((key) => blobOfManifest(key) ?? []).filter((key) => key !== prefix)),
      ),
    )
}

const optionNames: OptionNames<UnstorageBlobOptions> = { storage: true, chunkBytes: true }

/** Stores blobs in any unstorage instance. For programs without Effect; see `UnstorageBlobStore`. */
export const unstorageBlobs = (options: UnstorageBlobOptions): BlobAdapter => {
  requireOptions("unstorageBlobs()", options, optionNames)
  const { chunkBytes = 1, storage } = options
  if (typeof storage !== "object" || storage === null)
    throw new TypeError("unstorageBlobs() requires the option storage")
  requireNumber("chunkBytes", chunkBytes, { least: 1, most: Number.MAX_SAFE_INTEGER, whole: true })
  return blobAdapter(UnstorageBlobStore.layer(options))
}

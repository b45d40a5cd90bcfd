import { type BlobAdapter, blobAdapter } from "@kiln/core/ports"
import { type OptionNames, requireNumber, requireOptions } from "@kiln/core/domain"
import { type UnstorageBlobOptions, UnstorageBlobStore } from "./UnstorageBlobStore.ts"

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

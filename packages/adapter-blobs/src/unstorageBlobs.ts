import { type BlobAdapter, blobAdapter } from "@kiln/core/ports"
import { type OptionNames, requireNumber, requireOptions } from "@kiln/core/domain"
import { type UnstorageBlobOptions, UnstorageBlobStore } from "./UnstorageBlobStore.ts"

const optionNames: OptionNames<UnstorageBlobOptions> = { storage: true, chunkBytes: true }

/** Blobs in any unstorage instance, for programs without Effect: see `UnstorageBlobStore`. */
export const unstorageBlobs = (options: UnstorageBlobOptions): BlobAdapter => {
  requireOptions("unstorageBlobs()", options, optionNames)
  const { chunkBytes = 1, storage } = options
  if (typeof storage !== "object" || storage === null) throw new TypeError("unstorageBlobs() needs its storage")
  requireNumber("chunkBytes", chunkBytes, { least: 1, most: Number.MAX_SAFE_INTEGER, whole: true })
  return blobAdapter(UnstorageBlobStore.layer(options))
}

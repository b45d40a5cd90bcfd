import { type BlobAdapter, blobAdapter } from "@kiln/core/ports"
import { type OptionNames, requireOptions } from "@kiln/core/domain"
import { FileBlobStore } from "./FileBlobStore.ts"

const optionNames: OptionNames<Parameters<typeof FileBlobStore.layer>[0]> = { directory: true }

/** Stores blobs as files under one directory, which is created if it does not exist. For programs without Effect; see `FileBlobStore`. */
export const fileBlobs = (options: { readonly directory: string }): BlobAdapter => {
  requireOptions("fileBlobs()", options, optionNames)
  if (typeof options.directory !== "string" || options.directory === "")
    throw new TypeError("fileBlobs() requires the option directory")
  return blobAdapter(FileBlobStore.layer(options))
}

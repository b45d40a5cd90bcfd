import { type BlobAdapter, blobAdapter } from "@kiln/core/ports"
import { type OptionNames, requireOptions } from "@kiln/core/domain"
import { FileBlobStore } from "./FileBlobStore.ts"

const optionNames: OptionNames<Parameters<typeof FileBlobStore.layer>[0]> = { directory: true }

/** Blobs as files below one directory, which is created where it is missing; for programs without Effect: see `FileBlobStore`. */
export const fileBlobs = (options: { readonly directory: string }): BlobAdapter => {
  requireOptions("fileBlobs()", options, optionNames)
  if (typeof options.directory !== "string" || options.directory === "")
    throw new TypeError("fileBlobs() needs its directory")
  return blobAdapter(FileBlobStore.layer(options))
}

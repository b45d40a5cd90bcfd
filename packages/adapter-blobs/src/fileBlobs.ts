import { type BlobAdapter, blobAdapter } from "@kiln/core/ports"
import { FileBlobStore } from "./FileBlobStore.ts"

/** Blobs as files below one directory, which is created where it is missing; for programs without Effect: see `FileBlobStore`. */
export const fileBlobs = (options: { readonly directory: string }): BlobAdapter =>
  blobAdapter(FileBlobStore.layer(options))

import { type BlobAdapter, blobAdapter } from "@kiln/core/ports"
import { type UnstorageBlobOptions, UnstorageBlobStore } from "./UnstorageBlobStore.ts"

/** Blobs in any unstorage instance, for programs without Effect: see `UnstorageBlobStore`. */
export const unstorageBlobs = (options: UnstorageBlobOptions): BlobAdapter =>
  blobAdapter(UnstorageBlobStore.layer(options))

import { type OptionNames, requireOptions } from "@kiln/core/domain"
import { type BlobAdapter, blobAdapter } from "@kiln/core/ports"
import type { S3BlobOptions } from "./S3BlobOptions.ts"
import { S3BlobStore } from "./S3BlobStore.ts"

const optionNames: OptionNames<S3BlobOptions> = {
  bucket: true,
  prefix: true,
  region: true,
  endpoint: true,
  pathStyle: true,
  credentials: true,
  partBytes: true,
  timeoutMs: true,
  abandonedAfterMs: true,
}

/** Stores blobs in an S3 bucket. For programs without Effect; see `S3BlobStore`. */
export const s3Blobs = (options: S3BlobOptions): BlobAdapter => {
  requireOptions("s3Blobs()", options, optionNames)
  return blobAdapter(S3BlobStore.layer(options))
}

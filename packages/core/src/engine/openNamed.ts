import * as Effect from "effect/Effect"
import { BlobCorrupt, type BlobNotFound, type BlobUnavailable } from "../domain/index.ts"
import type { BlobInfo, BlobRange, BlobStore } from "../ports/index.ts"
import type { OpenBlob } from "../ports/BlobStore.ts"

/**
 * Opens the blob that a row names, and compares it with what the row was committed with, also when only a range is read: a blob
 * store that was restored, or confused with another one, contains complete blobs of other jobs.
 */
export const openNamed = (
  blobs: BlobStore["Service"],
  row: BlobInfo & { readonly blobKey: string },
  range?: BlobRange,
): Effect.Effect<OpenBlob, BlobNotFound | BlobUnavailable | BlobCorrupt> =>
  Effect.flatMap(blobs.open(row.blobKey, range), (blob) =>
    blob.bytes === row.bytes && blob.sha256 === row.sha256
      ? Effect.succeed(blob)
      : Effect.fail(new BlobCorrupt({ key: row.blobKey })),
  )

import * as Effect from "effect/Effect"
import { BlobCorrupt, type BlobNotFound, type BlobUnavailable } from "../domain/index.ts"
import type { BlobInfo, BlobRange, BlobStore, OpenBlob } from "../ports/index.ts"

/**
 * Opens the blob a row names. What lies under its key must be what the row was committed with, also
 * where only a part of it is asked for: a blob store that was restored, or mixed up with another's,
 * holds whole blobs that are somebody else's.
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

import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { BlobCorrupt, BlobNotFound, BlobTooLarge, BlobUnavailable } from "../domain/index.ts"

/** Length and hash of a stored blob. */
export interface BlobInfo {
  readonly bytes: number
  /** Lower-case hex, computed while it was written. */
  readonly sha256: string
}

/** `length` defaults to the rest. Both in bytes. */
export interface BlobRange {
  readonly offset: number
  readonly length?: number | undefined
}

/** An opened blob: the length and hash of the whole blob, and the requested bytes. */
export interface OpenBlob extends BlobInfo {
  /**
   * When the whole blob is read, fails with `BlobCorrupt` before the last chunk if length or SHA-256 differ from what was
   * written.
   */
  readonly content: Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt>
}

/** The validity of a blob's URL, and the headers of its responses. */
export interface BlobLink {
  /** A whole number from 1 to 604,800. */
  readonly expiresInSeconds: number
  readonly contentType: string
  readonly contentDisposition: string
}

/**
 * Stores bytes. Keys are `/`-separated parts of `[0-9a-z]+`, created by the server only (`domain/BlobKey.ts`); any other key is a
 * defect. Once `put` has succeeded, the blob is durable and complete. If it failed or was interrupted, the blob cannot be read.
 */
export class BlobStore extends Context.Service<
  BlobStore,
  {
    /**
     * Stores a stream under a new key and computes its length and hash on the way. Never replaces a blob: keys are not reused for
     * other bytes.
     */
    readonly put: <E>(
      key: string,
      content: Stream.Stream<Uint8Array, E>,
      options: { readonly maxBytes: number },
    ) => Effect.Effect<BlobInfo, E | BlobTooLarge | BlobUnavailable>
    /** A range that begins at or past the end is empty. */
    readonly open: (
      key: string,
      range?: BlobRange,
    ) => Effect.Effect<OpenBlob, BlobNotFound | BlobUnavailable | BlobCorrupt>
    /**
     * Removes every blob whose key is `prefix` or lies under `prefix/`, and verifies that they are gone. Succeeds if there is
     * nothing to remove.
     */
    readonly remove: (prefix: string) => Effect.Effect<void, BlobUnavailable>
    /** Lists the keys under `prefix/`, in no particular order, without blobs that are still being written. */
    readonly list: (prefix: string) => Stream.Stream<string, BlobUnavailable>
    /**
     * Fails if the place that was opened is gone or was replaced by another one, for instance a directory whose disk was unmounted. Reads
     * little, because it runs before claims. Absent in stores whose place cannot go unnoticed.
     */
    readonly checkPresence?: Effect.Effect<void, BlobUnavailable>
    /**
     * Returns a URL from which anyone can GET the blob. Absent in stores that do not serve blobs themselves. Does not check that
     * the blob exists. Removing the blob ends the URL.
     */
    readonly link?: (key: string, options: BlobLink) => Effect.Effect<string, BlobUnavailable>
  }
>()("@kiln/core/ports/BlobStore") {}

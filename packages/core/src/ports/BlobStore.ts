import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { BlobCorrupt, BlobNotFound, BlobTooLarge, BlobUnavailable } from "../domain/index.ts"

/** What is known of a stored blob. */
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

/** An opened blob: what was written, whole, and the bytes asked for. */
export interface OpenBlob extends BlobInfo {
  /** Fails with `BlobCorrupt`, before its last chunk, where a whole read does not have the length and SHA-256 that were written. */
  readonly content: Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt>
}

/**
 * Bytes. Keys are `/`-separated parts of `[0-9a-z]+`, made by the server only (`domain/BlobKey.ts`);
 * any other key is a defect. What `put` returned for is durable and whole; what it failed for, or
 * was interrupted in, is not readable.
 */
export class BlobStore extends Context.Service<
  BlobStore,
  {
    /** Stores a stream under a new key, counting and hashing while it flows. Replaces nothing: keys are never reused for other bytes. */
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
    /** Removes every blob whose key is `prefix` or lies under `prefix/`, and verifies that they are gone. Removing what is not there succeeds. */
    readonly remove: (prefix: string) => Effect.Effect<void, BlobUnavailable>
    /** Keys under `prefix/`, in no particular order, blobs that are being written not included. */
    readonly list: (prefix: string) => Stream.Stream<string, BlobUnavailable>
  }
>()("@kiln/core/ports/BlobStore") {}

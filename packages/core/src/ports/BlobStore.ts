import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import { type BlobCorrupt, type BlobNotFound, BlobTooLarge, type BlobUnavailable, isBlobKey } from "../domain/index.ts"

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

// Checks that every `BlobStore` makes. An invalid argument is a bug in the calling program, so it is a defect. The messages
// do not repeat the value, because the same bug may have put a client's text into it.

/** Dies unless `key` has the form that kiln generates, so that no other text reaches a path or a driver. */
export const requireBlobKey = (key: string): Effect.Effect<void> =>
  isBlobKey(key) ? Effect.void : Effect.die(new TypeError("a blob key must consist of parts of [0-9a-z]+ joined by /"))

/** Dies for negative numbers and for NaN, which would impose no limit. */
export const requireBlobLimit = (maxBytes: number): Effect.Effect<void> =>
  maxBytes >= 0 ? Effect.void : Effect.die(new RangeError("maxBytes must be a non-negative number"))

export const requireBlobRange = (range: BlobRange | undefined): Effect.Effect<void> =>
  range === undefined || (isCount(range.offset) && isCount(range.length ?? 0))
    ? Effect.void
    : Effect.die(new RangeError("offset and length of a range must be non-negative integers"))

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0

/** The requested part of a blob: bytes `from` (inclusive) to `to` (exclusive). */
export interface BlobSpan {
  readonly from: number
  readonly to: number
  /** True when the span covers the whole blob; only then can the SHA-256 be verified. */
  readonly whole: boolean
}

/** Returns the span of `range`, cut off at the end of the blob. */
export const blobSpanOf = (bytes: number, range: BlobRange | undefined): BlobSpan => {
  const from = Math.min(range?.offset ?? 0, bytes)
  const to = Math.min(from + (range?.length ?? bytes), bytes)
  return { from, to, whole: from === 0 && to === bytes }
}

const releasable = new WeakSet<ArrayBufferLike>()

/**
 * Declares that the next user of these bytes may free their memory. Nothing else may hold them, or any other view of their buffer.
 * Has no effect if they are only a part of their buffer.
 */
export const markReleasable = (bytes: Uint8Array): void => {
  if (bytes.byteLength === bytes.buffer.byteLength) releasable.add(bytes.buffer)
}

/**
 * Frees the memory of bytes that were marked; they are empty from then on. Has no effect on others. Call it after the last use, also
 * by system calls in progress.
 *
 * Otherwise the garbage collector frees them. V8 counts received bytes as growth of the heap, and collects the whole heap after each
 * 20 MB of them, which costs as much as hashing them.
 */
export const releaseBytes = (bytes: Uint8Array): void => {
  const { buffer } = bytes
  if (releasable.delete(buffer) && buffer instanceof ArrayBuffer) buffer.transfer(0)
}

export interface PieceWriting<E> {
  /** More content than this fails with `BlobTooLarge`. */
  readonly maxBytes: number
  /** The length of a piece in bytes. At most one piece is in memory. */
  readonly pieceBytes: number
  /** Sees all bytes in order, such as `createHash("sha256")`. */
  readonly hash: { readonly update: (bytes: Uint8Array) => unknown }
  /** Writes a piece of `pieceBytes`, which is overwritten once the effect has ended. */
  readonly write: (piece: Uint8Array) => Effect.Effect<void, E>
}

export interface PieceWriter<E> {
  /** Takes the next part of the content, and writes the pieces that it fills. One at a time. */
  readonly append: (part: Uint8Array) => Effect.Effect<void, E | BlobTooLarge>
  /**
   * Returns the length of the content and its end, which is not written yet. The end is empty only if the content is.
   */
  readonly end: () => { readonly bytes: number; readonly last: Uint8Array }
}

/**
 * For blob stores that write a blob in pieces of one length. A piece is written only when more bytes follow, so that a store
 * can write content of at most one piece in one step.
 */
export const pieceWriter = <E>({ hash, maxBytes, pieceBytes, write }: PieceWriting<E>): PieceWriter<E> => {
  let bytes = 0
  let filled = 0
  let buffer = new Uint8Array(0)
  const grow = (length: number): void => {
    if (length <= buffer.length) return
    const grown = new Uint8Array(Math.min(pieceBytes, Math.max(length, 2 * buffer.length)))
    grown.set(buffer.subarray(0, filled))
    buffer = grown
  }
  const append = Effect.fnUntraced(function* (part: Uint8Array) {
    bytes += part.length
    if (bytes > maxBytes) return yield* Effect.fail(new BlobTooLarge({ maxBytes }))
    hash.update(part)
    for (let taken = 0; taken < part.length;) {
      if (filled === pieceBytes) {
        yield* write(buffer)
        filled = 0
      }
      const next = part.subarray(taken, taken + pieceBytes - filled)
      grow(filled + next.length)
      buffer.set(next, filled)
      filled += next.length
      taken += next.length
    }
    releaseBytes(part)
  })
  return { append, end: () => ({ bytes, last: buffer.subarray(0, filled) }) }
}

import { BlobTooLarge } from "../domain/index.ts"
import * as Effect from "effect/Effect"
import { releaseBytes } from "./releasableBytes.ts"

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

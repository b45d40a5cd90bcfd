import type { BlobRange } from "@kiln/core/ports"

/** The part of a blob that is asked for: bytes `from` (inclusive) to `to` (exclusive). */
export interface Span {
  readonly from: number
  readonly to: number
  /** All of it: then, and only then, the SHA-256 can be compared. */
  readonly whole: boolean
}

/** What reaches past the end is cut off. */
export const spanOf = (bytes: number, range: BlobRange | undefined): Span => {
  const from = Math.min(range?.offset ?? 0, bytes)
  const to = Math.min(from + (range?.length ?? bytes), bytes)
  return { from, to, whole: from === 0 && to === bytes }
}

/** No chunk of a stream that is read is longer, in bytes. */
export const READ_CHUNK_BYTES = 64 * 1024

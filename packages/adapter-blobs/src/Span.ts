import type { BlobRange } from "@kiln/core/ports"

/** The requested part of a blob: bytes `from` (inclusive) to `to` (exclusive). */
export interface Span {
  readonly from: number
  readonly to: number
  /** True when the span covers the whole blob; only then can the SHA-256 be verified. */
  readonly whole: boolean
}

/** Returns the span of `range`, cut off at the end of the blob. */
export const spanOf = (bytes: number, range: BlobRange | undefined): Span => {
  const from = Math.min(range?.offset ?? 0, bytes)
  const to = Math.min(from + (range?.length ?? bytes), bytes)
  return { from, to, whole: from === 0 && to === bytes }
}

/**
 * Maximum length of a chunk in a stream that is read, in bytes. Larger buffers take twice the processor time: each is mapped as
 * fresh memory, while small ones are collected early and used again.
 */
export const READ_CHUNK_BYTES = 64 * 1024

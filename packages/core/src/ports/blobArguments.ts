import * as Effect from "effect/Effect"
import { isBlobKey } from "../domain/index.ts"
import type { BlobRange } from "./BlobStore.ts"

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

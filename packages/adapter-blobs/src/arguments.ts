import { isBlobKey } from "@kiln/core/domain"
import type { BlobRange } from "@kiln/core/ports"
import * as Effect from "effect/Effect"

// An invalid argument is a bug in the calling program, so it is a defect. The messages do not repeat the value, because
// the same bug may have put a client's text into it.

/** Dies unless `key` has the form that kiln generates, so that no other text reaches a path or a driver. */
export const requireBlobKey = (key: string): Effect.Effect<void> =>
  isBlobKey(key) ? Effect.void : Effect.die(new TypeError("a blob key must consist of parts of [0-9a-z]+ joined by /"))

/** Dies for negative numbers and for NaN, which would impose no limit. */
export const requireLimit = (maxBytes: number): Effect.Effect<void> =>
  maxBytes >= 0 ? Effect.void : Effect.die(new RangeError("maxBytes must be a non-negative number"))

export const requireRange = (range: BlobRange | undefined): Effect.Effect<void> =>
  range === undefined || (isCount(range.offset) && isCount(range.length ?? 0))
    ? Effect.void
    : Effect.die(new RangeError("offset and length of a range must be non-negative integers"))

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0

import { isBlobKey } from "@kiln/core/domain"
import type { BlobRange } from "@kiln/core/ports"
import { Effect } from "effect"

// A wrong argument is a mistake in the program that calls, never something a client sent: a defect. The messages do not
// repeat it, since a client's text may have got into it by that mistake.

/** Dies unless `key` is one that kiln makes: nothing else ever reaches a path or a driver. */
export const requireBlobKey = (key: string): Effect.Effect<void> =>
  isBlobKey(key) ? Effect.void : Effect.die(new TypeError("a blob key is parts of [0-9a-z]+ joined by /"))

/** Dies for NaN too, which would be no limit at all. */
export const requireLimit = (maxBytes: number): Effect.Effect<void> =>
  maxBytes >= 0 ? Effect.void : Effect.die(new RangeError("maxBytes must be 0 or more"))

export const requireRange = (range: BlobRange | undefined): Effect.Effect<void> =>
  range === undefined || (isCount(range.offset) && isCount(range.length ?? 0))
    ? Effect.void
    : Effect.die(new RangeError("offset and length of a range must be whole numbers, 0 or more"))

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0

import { type MediaInfo, MediaUnreadable } from "@kiln/core/ports"
import type { ByteCursor, Scan } from "./ByteCursor.ts"

/** The duration of a file, or why it is not decodable audio of its container. */
export type Measurement = MediaInfo | MediaUnreadable

/** Requests a second pass over the file from its beginning, now that the relevant offsets are known. */
export interface SecondLook {
  readonly secondLook: (cursor: ByteCursor) => Scan<Measurement>
}

/**
 * Measures a file of one container format in one or two passes. Work is linear in the file size and memory is bounded,
 * whatever lengths and counts the file claims: claimed numbers are never loop bounds or buffer sizes.
 */
export type Measure = (cursor: ByteCursor) => Scan<Measurement | SecondLook>

export const unreadable = (reason: string): MediaUnreadable => new MediaUnreadable({ reason })

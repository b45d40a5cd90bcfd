import { type MediaInfo, MediaUnreadable } from "@kiln/core/ports"
import type { ByteCursor, Scan } from "./ByteCursor.ts"

/** How long a file plays, or why it is not decodable audio of its container. */
export type Measurement = MediaInfo | MediaUnreadable

/** What must be read again from its beginning to be measured, now that it is known where to look. */
export interface SecondLook {
  readonly secondLook: (cursor: ByteCursor) => Scan<Measurement>
}

/**
 * Measures a file of one container in one pass, or two. Its work is linear in the bytes that arrive and its memory
 * bounded, whatever lengths and counts the file claims: a claim is never a loop bound or a buffer size.
 */
export type Measure = (cursor: ByteCursor) => Scan<Measurement | SecondLook>

export const unreadable = (reason: string): MediaUnreadable => new MediaUnreadable({ reason })

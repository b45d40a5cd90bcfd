import { type MediaInfo, MediaUnreadable } from "@kiln/core/ports"
import type { ByteCursor, Scan } from "./ByteCursor.ts"

/** How long a file plays, or why it is not decodable audio of its container. */
export type Measurement = MediaInfo | MediaUnreadable

/**
 * Measures a file of one container in one pass. Its work is linear in the bytes that arrive and its memory constant,
 * whatever lengths and counts the file claims: a claim is never a loop bound or a buffer size.
 */
export type Measure = (cursor: ByteCursor) => Scan<Measurement>

export const unreadable = (reason: string): MediaUnreadable => new MediaUnreadable({ reason })

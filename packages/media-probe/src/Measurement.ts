import { type MediaInfo, MediaUnreadable } from "@kiln/core/ports"
import type { Walk, Work } from "./Work.ts"

/** The duration of a file, or why it is not decodable audio of its container. */
export type Measurement = MediaInfo | MediaUnreadable

/**
 * Measures a file of one container format, which is in memory as a whole. Follows the walk of a decoder, and counts what a decoder
 * plays. Claimed lengths and counts are never loop bounds or buffer sizes unless the bytes are present, and every step is counted
 * as work.
 */
export type Measure = (file: Uint8Array, work: Work) => Walk<Measurement>

export const unreadable = (reason: string): MediaUnreadable => new MediaUnreadable({ reason })

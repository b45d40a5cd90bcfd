import { type Box, viewOf } from "@kiln/core/media"
import type { MediaUnreadable } from "@kiln/core/ports"
import { unreadable } from "../Measurement.ts"

/** The error for a file that decoders read differently. */
export const ambiguous = (detail: string): MediaUnreadable => unreadable(`mp4: ambiguous: ${detail}`)

/** Returns the 32-bit field of a box at an offset from its payload. */
export const field = (file: Uint8Array, box: Box, offset: number): number => {
  if (box.body + offset + 4 > box.end) throw ambiguous(`${box.type} is cut short`)
  return viewOf(file).getUint32(box.body + offset)
}

export const fourCharacters = (file: Uint8Array, at: number): string =>
  String.fromCharCode(file[at] ?? 0, file[at + 1] ?? 0, file[at + 2] ?? 0, file[at + 3] ?? 0)

/** Reads an unsigned 64-bit number; above 2^53 it is rounded, which is past the end of any file. */
export const u64 = (file: Uint8Array, at: number): number =>
  viewOf(file).getUint32(at) * 2 ** 32 + viewOf(file).getUint32(at + 4)

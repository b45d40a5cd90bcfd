import { type EbmlNumber, readEbmlNumber } from "@kiln/core/domain"
import type { ByteCursor } from "./ByteCursor.ts"

/** Reads the EBML number at an offset from the cursor; `undefined` where none begins or the bytes at hand end. */
export const numberAt = (cursor: ByteCursor, offset: number, maxBytes: number): EbmlNumber | undefined =>
  cursor.available <= offset
    ? undefined
    : readEbmlNumber(cursor.bytes(offset, Math.min(maxBytes, cursor.available - offset)), 0, maxBytes)

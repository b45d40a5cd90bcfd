import type { ByteCursor } from "./ByteCursor.ts"

/** How many bytes it takes, its value, the same with the marker bit (as ids are written), and whether it is the size "unknown". */
export interface EbmlNumber {
  readonly bytes: number
  readonly value: number
  readonly raw: number
  readonly isUnknown: boolean
}

/**
 * The EBML number at `offset`: the leading zero bits of its first byte say how many bytes follow; all ones mean "unknown".
 * `undefined` where none begins or the bytes at hand end. Above 2^53 it is rounded, which is past any end.
 */
export const numberAt = (cursor: ByteCursor, offset: number, maxBytes: number): EbmlNumber | undefined => {
  if (cursor.available <= offset) return undefined
  const first = cursor.u8(offset)
  const bytes = Math.clz32(first) - 23
  if (bytes > maxBytes || cursor.available < offset + bytes) return undefined
  const mask = 0xff >> bytes
  let value = first & mask
  let isUnknown = value === mask
  for (let i = 1; i < bytes; i++) {
    const byte = cursor.u8(offset + i)
    value = value * 256 + byte
    isUnknown &&= byte === 0xff
  }
  return { bytes, value, raw: value + (first - (first & mask)) * 256 ** (bytes - 1), isUnknown }
}

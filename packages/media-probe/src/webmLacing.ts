import type { ByteCursor } from "./ByteCursor.ts"
import { numberAt } from "./ebmlNumber.ts"

/**
 * Reads the frame sizes of a block, whose `bytes` begin at the cursor and are buffered; moves to the first frame.
 * `undefined` if they contradict each other: decoders skip such a block.
 */
export const readFrameSizes = (
  cursor: ByteCursor,
  lacing: number,
  bytes: number,
): ReadonlyArray<number> | undefined => {
  if (lacing === 0) return [bytes]
  if (bytes < 1) return undefined
  const frames = cursor.u8(0) + 1
  if (lacing === 2) {
    cursor.advance(1)
    return (bytes - 1) % frames === 0 ? Array.from({ length: frames }, () => (bytes - 1) / frames) : undefined
  }
  const laced = lacing === 1 ? xiphSizes(cursor, frames - 1, bytes) : ebmlSizes(cursor, frames - 1, bytes)
  if (laced === undefined) return undefined
  const last = laced.sizes.reduce((left, size) => left - size, bytes - laced.headBytes)
  if (last < 0) return undefined
  cursor.advance(laced.headBytes)
  return [...laced.sizes, last]
}

interface Laced {
  readonly sizes: ReadonlyArray<number>
  readonly headBytes: number
}

const xiphSizes = (cursor: ByteCursor, count: number, limit: number): Laced | undefined => {
  const sizes: Array<number> = []
  let at = 1
  for (let size = 0; sizes.length < count; at++) {
    if (at >= limit) return undefined
    const byte = cursor.u8(at)
    size += byte
    if (byte === 255) continue
    sizes.push(size)
    size = 0
  }
  return { sizes, headBytes: at }
}

/** Reads EBML lacing: the first size is absolute, the others are biased differences from the previous one. */
const ebmlSizes = (cursor: ByteCursor, count: number, limit: number): Laced | undefined => {
  const sizes: Array<number> = []
  let at = 1
  for (let size = 0; sizes.length < count;) {
    const number = numberAt(cursor, at, 8)
    if (number === undefined || at + number.bytes > limit) return undefined
    size = sizes.length === 0 ? number.value : size + number.value - (2 ** (7 * number.bytes - 1) - 1)
    if (size < 0) return undefined
    sizes.push(size)
    at += number.bytes
  }
  return { sizes, headBytes: at }
}

import { readEbmlNumber } from "@kiln/core/media"

/**
 * Returns the offsets at which the frames of a block begin, followed by the end of the last one. The content of the block lies from
 * `at` to `end`; `lacing` says how lengths are stored (0: one frame; 1: Xiph, 2: one length for all, 3: EBML). `undefined` if the
 * lengths contradict the block, which decoders take for damage.
 */
export const readLacing = (file: Uint8Array, at: number, end: number, lacing: number): Array<number> | undefined => {
  if (lacing === 0) return [at, end]
  if (at >= end) return undefined
  const frames = (file[at] ?? 0) + 1
  const first = at + 1
  if (lacing === 2) {
    const bytes = (end - first) / frames
    return Number.isInteger(bytes) ? Array.from({ length: frames + 1 }, (_, frame) => first + frame * bytes) : undefined
  }
  const laced = lacing === 1 ? xiphSizes(file, first, end, frames - 1) : ebmlSizes(file, first, end, frames - 1)
  if (laced === undefined) return undefined
  const offsets = [laced.body]
  for (const size of laced.sizes) offsets.push((offsets.at(-1) ?? 0) + size)
  return (offsets.at(-1) ?? 0) <= end ? [...offsets, end] : undefined
}

/** The lengths of all frames but the last, and the offset of the first frame. */
interface Laced {
  readonly sizes: ReadonlyArray<number>
  readonly body: number
}

const xiphSizes = (file: Uint8Array, first: number, end: number, count: number): Laced | undefined => {
  const sizes: Array<number> = []
  let at = first
  for (let size = 0; sizes.length < count; at++) {
    if (at >= end) return undefined
    const byte = file[at] ?? 0
    size += byte
    if (byte === 255) continue
    sizes.push(size)
    size = 0
  }
  return { sizes, body: at }
}

/** Reads EBML lacing: the first size is absolute, the others are biased differences from the previous one. */
const ebmlSizes = (file: Uint8Array, first: number, end: number, count: number): Laced | undefined => {
  // Decoders disagree about a single frame.
  if (count === 0) return undefined
  const sizes: Array<number> = []
  let at = first
  for (let size = 0; sizes.length < count;) {
    const number = readEbmlNumber(file, at)
    if (number === undefined || at + number.bytes > end) return undefined
    size = sizes.length === 0 ? number.value : size + number.value - (2 ** (7 * number.bytes - 1) - 1)
    if (size < 0) return undefined
    sizes.push(size)
    at += number.bytes
  }
  return { sizes, body: at }
}

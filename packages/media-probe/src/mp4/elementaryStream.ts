import type { Box } from "@kiln/core/media"

/** The description of an MPEG-4 elementary stream, as far as a decoder needs it. */
export interface ElementaryStream {
  readonly objectType: number
  /** The range of the codec's own configuration; empty without one. */
  readonly from: number
  readonly to: number
}

const STREAM = 3
const DECODER = 4
const CONFIGURATION = 5

/** Reads `esds`: descriptors of a tag, a length in groups of seven bits, and a payload that begins with fields of known lengths. */
export const elementaryStream = (file: Uint8Array, box: Box): ElementaryStream | undefined => {
  let at = box.body + 4
  const next = (): number => (at < box.end ? (file[at++] ?? 0) : 0)
  const descriptor = (tag: number): number | undefined => {
    if (next() !== tag) return undefined
    let length = 0
    for (let index = 0; index < 4; index++) {
      const byte = next()
      length = length * 128 + (byte & 0x7f)
      if (byte < 0x80) break
    }
    return length
  }
  if (descriptor(STREAM) === undefined) return undefined
  at += 2
  const flags = next()
  if (flags & 0x80) at += 2
  if (flags & 0x40) at += next()
  if (flags & 0x20) at += 2
  if (descriptor(DECODER) === undefined) return undefined
  const objectType = next()
  at += 12
  const length = descriptor(CONFIGURATION) ?? 0
  return { objectType, from: at, to: Math.min(box.end, at + length) }
}

/** Returns whether the stream is missing, or is video or images. */
export const isPicture = (stream: ElementaryStream | undefined): boolean => {
  const type = stream?.objectType ?? 0x20
  return (
    (type >= 0x20 && type <= 0x24) ||
    (type >= 0x60 && type <= 0x65) ||
    [0x6a, 0x6c, 0x6d, 0x6e, 0xa3, 0xa4, 0xb1].includes(type)
  )
}

import { startsWith, viewOf } from "./bytes.ts"

const ID3V1_BYTES = 128
const APE_HEADER_BYTES = 32

/**
 * Returns the offset after the ID3v2 tag at `at`; `at` without one. A tag has a header of 10 bytes with a length of four times 7
 * bits and a bit for a footer. Decoders do not recognize a tag whose length is written in another way, and neither does this.
 */
export const id3End = (data: Uint8Array, at: number): number => {
  if (!startsWith(data, at, "ID3") || data[at + 3] === 0xff || data[at + 4] === 0xff || at + 10 > data.length) return at
  let bytes = 0
  for (let index = at + 6; index < at + 10; index++) {
    const seven = data[index] ?? 0
    if (seven > 0x7f) return at
    bytes = bytes * 128 + seven
  }
  const hasFooter = data[at + 3] === 4 && ((data[at + 5] ?? 0) & 0x10) !== 0
  return at + 10 + bytes + (hasFooter ? 10 : 0)
}

/** Returns the offset after the tag (ID3v2, ID3v1 or APE) at `at`; `at` without one. It may lie past the end of the data. */
export const tagEnd = (data: Uint8Array, at: number): number => {
  switch (data[at]) {
    case 0x49:
      return id3End(data, at)
    case 0x54:
      return startsWith(data, at, "TAG") ? at + ID3V1_BYTES : at
    case 0x41: // The length does not count the header.
      return startsWith(data, at, "APETAGEX") && at + 16 <= data.length
        ? at + APE_HEADER_BYTES + viewOf(data).getUint32(at + 12, true)
        : at
    default:
      return at
  }
}

/**
 * Returns the offset after the tags and zeros at `at`; `at` without any. Encoders put them before, after and, in joined files,
 * between frames. For a tag that is cut short, the offset is past the end of the data.
 */
export const afterTags = (data: Uint8Array, at: number): number => {
  let next = at
  for (;;) {
    const before = next
    next = tagEnd(data, next)
    while (next < data.length && data[next] === 0) next++
    if (next === before) return next
  }
}

import { startsWith } from "./bytes.ts"

const ID3V1_BYTES = 128
const APE_HEADER_BYTES = 32

/**
 * Returns the offset after the tags and zeros at `at`; `at` without any. Encoders put them before, after and, in joined files,
 * between frames. For a tag that is cut short, the offset is past the end of the data.
 */
export const afterTags = (data: Uint8Array, at: number): number => {
  let next = at
  for (;;) {
    const before = next
    next = afterTag(data, next)
    while (next < data.length && data[next] === 0) next++
    if (next === before) return next
  }
}

const afterTag = (data: Uint8Array, at: number): number => {
  switch (data[at]) {
    case 0x49: // ID3v2: a header of 10 bytes with a length of four times 7 bits, and a bit for a footer
      if (!startsWith(data, at, "ID3")) return at
      return at + 10 + sevenBits(data, at + 6) + (((data[at + 5] ?? 0) & 0x10) === 0 ? 0 : 10)
    case 0x54: // ID3v1
      return startsWith(data, at, "TAG") ? at + ID3V1_BYTES : at
    case 0x41: // APE, whose length does not count the header
      return startsWith(data, at, "APETAGEX") ? at + APE_HEADER_BYTES + uint32(data, at + 12) : at
    default:
      return at
  }
}

const sevenBits = (data: Uint8Array, at: number): number => {
  let value = 0
  for (let index = at; index < at + 4; index++) value = value * 128 + ((data[index] ?? 0) & 0x7f)
  return value
}

const uint32 = (data: Uint8Array, at: number): number => {
  let value = 0
  for (let index = at + 3; index >= at; index--) value = value * 256 + (data[index] ?? 0)
  return value
}

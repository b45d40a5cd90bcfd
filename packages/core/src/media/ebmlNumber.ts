/** A number as WebM and Matroska write ids and sizes. */
export interface EbmlNumber {
  /** Length of the encoding, 1 to 8 bytes. */
  readonly bytes: number
  readonly value: number
  /** The value including the length marker bit, which is how ids are written. */
  readonly raw: number
  /** Whether all bits are set, which means a size unknown to the writer. */
  readonly isUnknown: boolean
}

/**
 * Reads the EBML number at `at`: the number of leading zero bits is the number of further bytes. Returns `undefined` for an
 * invalid first byte, for more than `maxBytes`, and if the data ends too early. Values above 2^53 are rounded, which is beyond
 * any file size.
 */
export const readEbmlNumber = (data: Uint8Array, at: number, maxBytes = 8): EbmlNumber | undefined => {
  const first = data[at] ?? 0
  const bytes = Math.clz32(first) - 23
  if (first === 0 || bytes > maxBytes || at + bytes > data.length) return undefined
  const mask = 0xff >> bytes
  let raw = first
  let value = first & mask
  let isUnknown = value === mask
  for (let index = at + 1; index < at + bytes; index++) {
    const byte = data[index] ?? 0
    raw = raw * 256 + byte
    value = value * 256 + byte
    isUnknown &&= byte === 0xff
  }
  return { bytes, value, raw, isUnknown }
}

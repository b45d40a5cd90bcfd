/** A number as WebM and Matroska write ids and sizes. */
export interface EbmlNumber {
  /** How many bytes it takes, 1 to 8. */
  readonly bytes: number
  readonly value: number
  /** The same with the bit that marks its length, as ids are written. */
  readonly raw: number
  /** All bits set: a size that its writer could not know. */
  readonly isUnknown: boolean
}

/**
 * Reads the EBML number at `at`: the zero bits before the first one say how many more bytes there are. Returns `undefined` where
 * none begins, where it would take more than `maxBytes`, or where the bytes end before it does. Above 2^53 the value is rounded,
 * which is past any end of a file.
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

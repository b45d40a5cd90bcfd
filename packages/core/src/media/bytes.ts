/** Returns whether these characters, one byte each, are at offset `at`. */
export const startsWith = (data: Uint8Array, at: number, text: string): boolean => {
  for (let index = 0; index < text.length; index++) if (data[at + index] !== text.charCodeAt(index)) return false
  return true
}

const views = new WeakMap<Uint8Array, DataView>()

/** Returns the view of these bytes, the same one each time: walkers ask for it at every step. */
export const viewOf = (data: Uint8Array): DataView => {
  const known = views.get(data)
  if (known !== undefined) return known
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  views.set(data, view)
  return view
}

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

/** The register after one byte, of the checksum that FLAC and AC-3 use: the polynomial 0x8005, the highest bit first. */
const table0 = /* @__PURE__ */ Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = (crc << 1) ^ (crc & 0x8000 ? 0x8005 : 0)
  return crc
})
const withByte = (crc: number, byte: number): number => ((crc & 0xff) << 8) ^ (table0[(crc >> 8) ^ byte] ?? 0)

/** The register after one, two and three more zero bytes, so that four bytes can be processed at once. */
const table1 = /* @__PURE__ */ table0.map((crc) => withByte(crc, 0))
const table2 = /* @__PURE__ */ table1.map((crc) => withByte(crc, 0))
const table3 = /* @__PURE__ */ table2.map((crc) => withByte(crc, 0))

/** Returns the checksum of a range of bytes, which is 0 if the range ends with its own checksum. */
export const crc16 = (data: Uint8Array, start: number, end: number): number => {
  let crc = 0
  let at = start
  for (; at + 4 <= end; at += 4)
    crc =
      (table3[(crc >> 8) ^ (data[at] ?? 0)] ?? 0) ^
      (table2[(crc & 0xff) ^ (data[at + 1] ?? 0)] ?? 0) ^
      (table1[data[at + 2] ?? 0] ?? 0) ^
      (table0[data[at + 3] ?? 0] ?? 0)
  for (; at < end; at++) crc = withByte(crc, data[at] ?? 0)
  return crc
}

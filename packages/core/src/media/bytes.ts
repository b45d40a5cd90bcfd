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

/** A compressed frame that a sync word begins. */
export interface Frame {
  /** Length with its header. */
  readonly bytes: number
  readonly samples: number
  readonly sampleRate: number
}

/** A frame of MPEG audio: all versions and layers. */
export interface MpegFrame extends Frame {
  readonly layer: 1 | 2 | 3
  /** The header bits that decoders compare to recognize the frames of one stream: sync, version, layer, sample rate. */
  readonly kind: number
  /** Layer III: bytes of side information between the header and the main data. */
  readonly sideInfoBytes: number
}

// kbit/s by layer and by the index in the header. Index 0 is the free format, whose frames state no size and which common decoders
// do not play; 15 is invalid.
const bitrates1: ReadonlyArray<ReadonlyArray<number>> = [
  [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
]
const lowBitrates = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
const bitrates2: ReadonlyArray<ReadonlyArray<number>> = [
  [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  lowBitrates,
  lowBitrates,
]
const mpegRates = [44_100, 48_000, 32_000]
const adtsRates = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350]

/** Reads the header of the MPEG audio frame at `at`; `undefined` without one. The frame may reach past the end of the data. */
export const mpegFrameAt = (data: Uint8Array, at: number): MpegFrame | undefined => {
  const kindByte = data[at + 1] ?? 0
  if (data[at] !== 0xff || kindByte < 0xe0) return undefined
  const version = (kindByte >> 3) & 3
  const layer = 4 - ((kindByte >> 1) & 3)
  const rates = data[at + 2] ?? 0
  const isMpeg1 = version === 3
  const bitrate = (isMpeg1 ? bitrates1 : bitrates2)[layer - 1]?.[rates >> 4]
  const baseRate = mpegRates[(rates >> 2) & 3]
  if (version === 1 || !bitrate || baseRate === undefined || (layer !== 1 && layer !== 2 && layer !== 3))
    return undefined
  const sampleRate = isMpeg1 ? baseRate : version === 2 ? baseRate / 2 : baseRate / 4
  const samples = layer === 1 ? 384 : layer === 3 && !isMpeg1 ? 576 : 1152
  const slotBytes = layer === 1 ? 4 : 1
  const slots = Math.floor((samples / 8 / slotBytes) * ((bitrate * 1000) / sampleRate)) + ((rates >> 1) & 1)
  const isMono = (data[at + 3] ?? 0) >> 6 === 3
  return {
    bytes: slots * slotBytes,
    samples,
    sampleRate,
    layer,
    kind: (kindByte & 0xfe) * 256 + (rates & 0x0c),
    sideInfoBytes: isMpeg1 ? (isMono ? 17 : 32) : isMono ? 9 : 17,
  }
}

/** Reads the header of the ADTS frame (AAC) at `at`; `undefined` without one. The frame may reach past the end of the data. */
export const adtsFrameAt = (data: Uint8Array, at: number): Frame | undefined => {
  const kind = data[at + 1] ?? 0
  if (data[at] !== 0xff || (kind & 0xf6) !== 0xf0) return undefined
  const sampleRate = adtsRates[((data[at + 2] ?? 0) >> 2) & 15]
  const bytes = (((data[at + 3] ?? 0) & 3) << 11) | ((data[at + 4] ?? 0) << 3) | ((data[at + 5] ?? 0) >> 5)
  const headerBytes = kind & 1 ? 7 : 9
  const blocks = ((data[at + 6] ?? 0) & 3) + 1
  return sampleRate === undefined || bytes <= headerBytes ? undefined : { bytes, samples: 1024 * blocks, sampleRate }
}

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

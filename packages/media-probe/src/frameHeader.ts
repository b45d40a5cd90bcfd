import type { ByteCursor } from "./ByteCursor.ts"

/** The header of a compressed frame with a sync word, so that it can be found in any stream of bytes. */
export interface FrameHeader {
  readonly codec: "mpeg" | "adts"
  readonly bytes: number
  readonly samples: number
  readonly sampleRate: number
  /** The bits that do not change between frames of one stream. */
  readonly kind: number
  /** MPEG layer III: bytes between the header and the main data. */
  readonly sideInfoBytes: number
}

/** Number of bytes sufficient to read any header. */
export const HEADER_BYTES = 6

// kbit/s by the index in the header. Index 0 is the free format, whose frames state no
// size and which common decoders do not play; 15 is invalid.
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

/** Reads the frame header at `offset`, where the byte is 0xff and `HEADER_BYTES` are buffered. */
export const frameHeaderAt = (cursor: ByteCursor, offset: number): FrameHeader | undefined => {
  const kindByte = cursor.u8(offset + 1)
  if (kindByte < 0xe0) return undefined
  return (kindByte & 0xf6) === 0xf0 ? adtsHeader(cursor, offset) : mpegHeader(cursor, offset, kindByte)
}

const mpegHeader = (cursor: ByteCursor, offset: number, kindByte: number): FrameHeader | undefined => {
  const version = (kindByte >> 3) & 3
  const layer = 4 - ((kindByte >> 1) & 3)
  const rates = cursor.u8(offset + 2)
  const isMpeg1 = version === 3
  const bitrate = (isMpeg1 ? bitrates1 : bitrates2)[layer - 1]?.[rates >> 4]
  const baseRate = mpegRates[(rates >> 2) & 3]
  if (version === 1 || !bitrate || baseRate === undefined) return undefined
  const sampleRate = isMpeg1 ? baseRate : version === 2 ? baseRate / 2 : baseRate / 4
  const samples = layer === 1 ? 384 : layer === 3 && !isMpeg1 ? 576 : 1152
  const padding = (rates >> 1) & 1
  const slotBytes = layer === 1 ? 4 : 1
  const slots = Math.floor((samples / 8 / slotBytes) * ((bitrate * 1000) / sampleRate)) + padding
  const isMono = cursor.u8(offset + 3) >> 6 === 3
  return {
    codec: "mpeg",
    bytes: slots * slotBytes,
    samples,
    sampleRate,
    sideInfoBytes: isMpeg1 ? (isMono ? 17 : 32) : isMono ? 9 : 17,
    kind: (kindByte & 0xfe) * 256 + (rates & 0x0c),
  }
}

const adtsHeader = (cursor: ByteCursor, offset: number): FrameHeader | undefined => {
  const sampleRate = adtsRates[(cursor.u8(offset + 2) >> 2) & 15]
  const bytes = (cursor.u32(offset + 2) >>> 5) & 0x1fff
  if (sampleRate === undefined || bytes < 7) return undefined
  // Decoders play only the first block of a frame; real files have no more.
  return { codec: "adts", bytes, samples: 1024, sampleRate, sideInfoBytes: 0, kind: cursor.u24(offset + 1) & 0xfefdc0 }
}

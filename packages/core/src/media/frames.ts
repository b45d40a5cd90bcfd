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

import type { ByteCursor } from "./ByteCursor.ts"

/** The sample format of a WAVE file, as far as it determines the number of samples. */
export interface WavFormat {
  readonly sampleRate: number
  /** Number of bytes per block, and of sample frames per block. */
  readonly blockBytes: number
  readonly blockSamples: number
  /** True for MPEG frames, which are counted instead. */
  readonly isMpeg: boolean
  /** True for PCM samples; decoders that find compressed frames among them play the frames. */
  readonly isRaw: boolean
}

/** The highest rate of any hardware. */
const MAX_SAMPLE_RATE = 768_000

// WAVE_FORMAT_*
const PCM = 0x0001
const ADPCM = 0x0002
const FLOAT = 0x0003
const ALAW = 0x0006
const MULAW = 0x0007
const IMA_ADPCM = 0x0011
const GSM = 0x0031
const MPEG = 0x0050
const MP3 = 0x0055
const EXTENSIBLE = 0xfffe

/** Reads the `fmt ` chunk of `bytes` buffered bytes; `undefined` if it is invalid or does not determine a duration. */
export const readWavFormat = (cursor: ByteCursor, bytes: number): WavFormat | undefined => {
  const channels = cursor.u16(2, true)
  const sampleRate = cursor.u32(4, true)
  const blockBytes = cursor.u16(12, true)
  const bits = cursor.u16(14, true)
  if (channels === 0 || sampleRate === 0 || sampleRate > MAX_SAMPLE_RATE) return undefined
  const blocks = (samples: number, ofBytes = blockBytes): WavFormat | undefined =>
    samples >= 1 && ofBytes >= 1
      ? { sampleRate, blockBytes: ofBytes, blockSamples: Math.floor(samples), isMpeg: false, isRaw: false }
      : undefined
  const raw = (sampleBytes: number): WavFormat | undefined => {
    const block = blocks(1, smallest(sampleBytes * channels, blockBytes))
    return sampleBytes < 1 || sampleBytes > 8 ? undefined : block && { ...block, isRaw: true }
  }
  switch (codecOf(cursor, bytes)) {
    case PCM:
    case FLOAT:
      return raw(sampleBytesOf(cursor, bytes))
    case ALAW:
    case MULAW:
      return raw(1)
    case ADPCM:
      return blocks(2 + ((blockBytes - 7 * channels) * 2) / channels)
    case IMA_ADPCM:
      return bits >= 2 && bits <= 5 ? blocks(1 + ((blockBytes - 4 * channels) * 8) / (bits * channels)) : undefined
    case GSM:
      return blocks(320, Math.min(65, Math.max(41, blockBytes)))
    case MPEG:
    case MP3:
      return { sampleRate, blockBytes: 1, blockSamples: 0, isMpeg: true, isRaw: false }
    default:
      return undefined
  }
}

/** Returns the codec; an extensible header names it in the first bytes of a GUID. */
const codecOf = (cursor: ByteCursor, bytes: number): number => {
  const codec = cursor.u16(0, true)
  if (codec !== EXTENSIBLE) return codec
  return bytes >= 40 ? cursor.u16(24, true) : PCM
}

/** Returns the sample width, which is stated as bits, as valid bits and as block size. If these disagree, decoders differ, and the smallest counts. */
const sampleBytesOf = (cursor: ByteCursor, bytes: number): number => {
  const stated = Math.ceil(cursor.u16(14, true) / 8)
  const valid = bytes >= 40 && cursor.u16(0, true) === EXTENSIBLE ? Math.ceil(cursor.u16(18, true) / 8) : 0
  // 20 or 24 bits in words of 24 or 32: the block size determines the word width.
  const isPadded = stated - valid === 1 && cursor.u16(12, true) === stated * cursor.u16(2, true)
  return isPadded ? stated : smallest(stated, valid)
}

const smallest = (...sizes: ReadonlyArray<number>): number => {
  const known = sizes.filter((size) => size > 0)
  return known.length === 0 ? 0 : Math.min(...known)
}

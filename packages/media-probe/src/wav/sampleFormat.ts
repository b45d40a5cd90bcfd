import { startsWith, viewOf } from "@kiln/core/media"

/** The sample format of a WAVE file, as far as it determines the number of samples. */
export interface SampleFormat {
  readonly sampleRate: number
  readonly blockBytes: number
  /** Returns the number of samples of each channel in so many bytes, at most a block. */
  readonly samplesIn: (bytes: number) => number
  /** Frames of MPEG audio are followed instead. */
  readonly isMpeg: boolean
  /** PCM samples, in which decoders look for compressed frames; 0 for others. */
  readonly pcmBits: number
}

/** The highest rate of any hardware. */
const MAX_SAMPLE_RATE = 768_000

const EXTENSIBLE = 0xfffe

/** The rest of a GUID whose first four bytes are a format tag. */
const TAG_GUID = "\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"

/** Bytes of a group and its samples in blocks of IMA ADPCM, by bits per sample. */
const imaGroups: Readonly<Record<number, readonly [bytes: number, samples: number]>> = {
  2: [4, 16],
  3: [12, 32],
  4: [4, 8],
  5: [20, 32],
}

/**
 * Reads the content of a `fmt ` chunk; `undefined` for an invalid one and for codecs that are not measured. Where the fields
 * disagree, reads them as ffmpeg does, or so that the duration is longer.
 */
export const readSampleFormat = (file: Uint8Array, at: number, bytes: number): SampleFormat | undefined => {
  const view = viewOf(file)
  if (bytes < 14 || at + Math.min(bytes, 40) > file.length) return undefined
  const u16 = (offset: number): number => view.getUint16(at + offset, true)
  const extensionBytes = bytes >= 18 ? Math.min(bytes - 18, u16(16)) : 0
  const isExtensible = u16(0) === EXTENSIBLE && extensionBytes >= 22
  if (isExtensible && !startsWith(file, at + 28, TAG_GUID)) return undefined
  const tag = isExtensible ? view.getUint32(at + 24, true) : u16(0)
  const channels = u16(2)
  const sampleRate = view.getUint32(at + 4, true)
  const stated = u16(12)
  const bits = (isExtensible && u16(18)) || (bytes === 14 ? 8 : u16(14))
  if (channels === 0 || sampleRate === 0 || sampleRate > MAX_SAMPLE_RATE) return undefined

  const blocks = (blockBytes: number, samplesIn: (bytes: number) => number, pcmBits = 0): SampleFormat | undefined =>
    samplesIn(blockBytes) >= 1 ? { sampleRate, blockBytes, samplesIn, isMpeg: false, pcmBits } : undefined
  const samples = (sampleBytes: number, pcmBits = 0): SampleFormat | undefined => {
    const all = sampleBytes * channels
    const block = stated > 0 && stated < all ? stated : all
    return blocks(block, (present) => Math.floor(present / block), pcmBits)
  }
  switch (tag) {
    case 0x0001: {
      // 24 bits in words of 32.
      const sampleBytes = bits === 24 && stated === 4 * channels ? 4 : Math.ceil(bits / 8)
      return [1, 2, 3, 4, 8].includes(sampleBytes) ? samples(sampleBytes, 8 * sampleBytes) : undefined
    }
    case 0x0003:
      return bits === 32 || bits === 64 ? samples(bits / 8) : undefined
    case 0x0006:
    case 0x0007:
      return samples(1)
    case 0x0002: // Microsoft's ADPCM
      return channels > 2
        ? undefined
        : blocks(stated, (present) => Math.floor(((present - 6 * channels) * 2) / channels))
    case 0x0011: {
      const [groupBytes, groupSamples] = imaGroups[bits] ?? [0, 0]
      const isWhole = groupBytes > 0 && channels <= 2 && (stated - 4 * channels) % (groupBytes * channels) === 0
      const groupsIn = (present: number) => Math.floor((present - 4 * channels) / (groupBytes * channels))
      return isWhole ? blocks(stated, (present) => 1 + groupsIn(present) * groupSamples) : undefined
    }
    case 0x0020: // Yamaha's ADPCM
      return channels > 2 ? undefined : blocks(channels, (present) => Math.floor((present * 2) / channels))
    case 0x0031: // GSM
      return channels === 1 && stated >= 41 && stated <= 65 && stated % 3 === 2
        ? blocks(stated, (present) => (present === stated ? 320 : 0))
        : undefined
    case 0x0014:
    case 0x0040:
    case 0x0045:
    case 0x0064: {
      // G.726, whose width follows from the bytes per second.
      const width = Math.floor((view.getUint32(at + 8, true) * 8) / sampleRate)
      return channels === 1 && width >= 2 && width <= 5
        ? blocks(60, (present) => Math.floor((present * 8) / width))
        : undefined
    }
    case 0x028f: // G.722
      return channels === 1 ? blocks(1, (present) => present * 2) : undefined
    case 0x0050:
    case 0x0055:
      return { sampleRate, blockBytes: 1, samplesIn: () => 0, isMpeg: true, pcmBits: 0 }
    default:
      return undefined
  }
}

import type { AacStream } from "./aacFrame.ts"

/** The configuration of a stream of AAC. */
export interface AacConfig extends AacStream {
  readonly sampleRate: number
  /** False for profiles of which a decoder plays one frame per sample, whatever follows it. */
  readonly mayHoldSeveral: boolean
}

const rates = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350]

const BAND_REPLICATION = 5
const PARAMETRIC_STEREO = 29
const LOW_DELAY = 23
const ENHANCED_LOW_DELAY = 39

/** Reads AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1); `undefined` for profiles that common decoders do not play. */
export const readAacConfig = (config: Uint8Array): AacConfig | undefined => {
  let at = 0
  const bits = (count: number): number => {
    let value = 0
    for (const end = at + count; at < end; at++) value = value * 2 + (((config[at >> 3] ?? 0) >> (7 - (at & 7))) & 1)
    return value
  }
  const profile = (): number => {
    const short = bits(5)
    return short === 31 ? 32 + bits(6) : short
  }
  let objectType = profile()
  const rateIndex = bits(4)
  bits(4)
  // The rate read before is the rate of the inner frames.
  if (objectType === BAND_REPLICATION || objectType === PARAMETRIC_STEREO) {
    if (bits(4) === 15) bits(24)
    objectType = profile()
  }
  const isShort = bits(1) === 1
  const sampleRate = rates[rateIndex]
  if (sampleRate === undefined || at > config.length * 8) return undefined
  const isDelayed = objectType === LOW_DELAY || objectType === ENHANCED_LOW_DELAY
  if (!isDelayed && ![1, 2, 4].includes(objectType)) return undefined
  const frameSamples = (isShort ? 960 : 1_024) / (isDelayed ? 2 : 1)
  return { objectType, rateIndex, sampleRate, frameSamples, mayHoldSeveral: !isDelayed }
}

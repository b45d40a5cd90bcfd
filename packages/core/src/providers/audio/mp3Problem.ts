import { framesProblem } from "./framesProblem.ts"

// kbit/s of layer III by the index in the header: MPEG 1, then MPEG 2 and 2.5. Index 0 is the free format, whose frames
// have no stated size.
const bitrates1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
const bitrates2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
const sampleRates1 = [44_100, 48_000, 32_000]

/** Returns what is wrong with an MP3; `undefined` if it has at least one frame of layer III and all are complete. */
export const mp3Problem = (data: Uint8Array): string | undefined => framesProblem(data, lengthAt)

const lengthAt = (data: Uint8Array, at: number): number => {
  const kind = data[at + 1] ?? 0
  if (data[at] !== 0xff || (kind & 0xe6) !== 0xe2) return 0
  const version = (kind >> 3) & 3
  const rates = data[at + 2] ?? 0
  const isMpeg1 = version === 3
  const kilobits = (isMpeg1 ? bitrates1 : bitrates2)[rates >> 4]
  const baseRate = sampleRates1[(rates >> 2) & 3]
  if (version === 1 || !kilobits || baseRate === undefined) return 0
  const sampleRate = isMpeg1 ? baseRate : version === 2 ? baseRate / 2 : baseRate / 4
  return Math.floor(((isMpeg1 ? 144 : 72) * kilobits * 1000) / sampleRate) + ((rates >> 1) & 1)
}

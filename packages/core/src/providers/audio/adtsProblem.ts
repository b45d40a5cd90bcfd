import { framesProblem } from "./framesProblem.ts"

/** The largest index of a sample rate that exists. */
const MAX_RATE_INDEX = 12

/** Returns what is wrong with AAC in ADTS frames; `undefined` if there is at least one and all are complete. */
export const adtsProblem = (data: Uint8Array): string | undefined => framesProblem(data, lengthAt)

const lengthAt = (data: Uint8Array, at: number): number => {
  const kind = data[at + 1] ?? 0
  const rates = data[at + 2] ?? 0
  if (data[at] !== 0xff || (kind & 0xf6) !== 0xf0 || ((rates >> 2) & 0x0f) > MAX_RATE_INDEX) return 0
  const length = (((data[at + 3] ?? 0) & 3) << 11) | ((data[at + 4] ?? 0) << 3) | ((data[at + 5] ?? 0) >> 5)
  const headerBytes = kind & 1 ? 7 : 9
  return length > headerBytes ? length : 0
}

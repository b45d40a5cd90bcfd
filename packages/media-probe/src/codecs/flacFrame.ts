const rates = [0, 88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]

/** Returns whether a FLAC frame may begin at `at`: whether its sync code is there. */
export const mayBeFlacFrame = (data: Uint8Array, at: number): boolean =>
  data[at] === 0xff && ((data[at + 1] ?? 0) & 0xfe) === 0xf8

/**
 * Returns the seconds that the header of a FLAC frame at `at` states (RFC 9639, 9.1); 0 if there is no valid header. A frame without a
 * sample rate has the rate of the stream.
 */
export const flacFrameSeconds = (data: Uint8Array, at: number, to: number, streamRate: number): number => {
  const byte = (offset: number): number => (at + offset < to ? (data[at + offset] ?? 0) : 0)
  const sizeCode = byte(2) >> 4
  const rateCode = byte(2) & 15
  const channels = byte(3) >> 4
  const width = (byte(3) >> 1) & 7
  if (byte(0) !== 0xff || (byte(1) & 0xfe) !== 0xf8 || sizeCode === 0 || rateCode === 15) return 0
  if (channels > 10 || width === 3 || (byte(3) & 1) === 1) return 0
  // The number of the frame, as UTF-8 writes characters.
  const ones = Math.clz32(~(byte(4) << 24))
  if (ones === 1 || ones > 7) return 0
  let next = 4 + Math.max(1, ones)
  let samples = 0
  if (sizeCode === 1) samples = 192
  else if (sizeCode < 6) samples = 576 * 2 ** (sizeCode - 2)
  else if (sizeCode === 6) samples = byte(next++) + 1
  else if (sizeCode === 7) samples = byte(next++) * 256 + byte(next++) + 1
  else samples = 256 * 2 ** (sizeCode - 8)
  let rate = rates[rateCode] || streamRate
  if (rateCode === 12) rate = byte(next++) * 1_000
  else if (rateCode > 12) rate = (byte(next++) * 256 + byte(next++)) * (rateCode === 13 ? 1 : 10)
  return rate > 0 && checksum(data, at, at + next) === byte(next) ? samples / rate : 0
}

const checksum = (data: Uint8Array, from: number, to: number): number => {
  let value = 0
  for (let at = from; at < to; at++) {
    value ^= data[at] ?? 0
    for (let bit = 0; bit < 8; bit++) value = (value << 1) ^ (value & 0x80 ? 0x107 : 0)
  }
  return value
}

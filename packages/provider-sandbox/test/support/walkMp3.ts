export interface WalkedMp3 {
  readonly frames: number
  readonly seconds: number
  readonly sampleRates: ReadonlySet<number>
  readonly channelModes: ReadonlySet<number>
}

// kbit/s of MPEG 2 layer III, the only format of the samples.
const bitrates = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
const sampleRates = [22_050, 24_000, 16_000]

/** Walks a file frame by frame; throws if a frame is missing or the last one is truncated. */
export const walkMp3 = (file: Uint8Array): WalkedMp3 => {
  let at = 0
  let frames = 0
  let seconds = 0
  const rates = new Set<number>()
  const modes = new Set<number>()
  while (at < file.length) {
    const [sync, kind, bits, mode] = file.subarray(at, at + 4)
    if (sync !== 0xff || (kind! & 0xfe) !== 0xf2) throw new Error(`no MPEG 2 layer III frame at ${at}`)
    const bitrate = bitrates[bits! >> 4]
    const sampleRate = sampleRates[(bits! >> 2) & 3]
    if (!bitrate || !sampleRate) throw new Error(`impossible rates at ${at}`)
    at += Math.floor((72 * bitrate * 1000) / sampleRate) + ((bits! >> 1) & 1)
    frames++
    seconds += 576 / sampleRate
    rates.add(sampleRate)
    modes.add(mode! >> 6)
  }
  if (at !== file.length) throw new Error("the last frame is truncated")
  return { frames, seconds, sampleRates: rates, channelModes: modes }
}

import type { Frame } from "@kiln/core/media"

const kbps = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640]
const rates = [48_000, 44_100, 32_000]
const blocks = [1, 2, 3, 6]
const BLOCK_SAMPLES = 256

/**
 * Reads the header of the AC-3 or E-AC-3 frame at `at` (ETSI TS 102 366); `undefined` without one. Frames that belong to another
 * frame, or to a program beside the first one, have no samples.
 */
export const ac3FrameAt = (data: Uint8Array, at: number): Frame | undefined => {
  const byte = (offset: number): number => data[at + offset] ?? 0
  if (byte(0) !== 0x0b || byte(1) !== 0x77) return undefined
  const version = byte(5) >> 3
  const sizes = byte(4)
  const rate = rates[sizes >> 6]
  if (version > 16) return undefined
  if (version <= 10) {
    const code = sizes & 0x3f
    const rateKbps = kbps[code >> 1]
    if (rate === undefined || rateKbps === undefined) return undefined
    const words = rate === 44_100 ? Math.floor((320 * rateKbps) / 147) + (code & 1) : (rateKbps * 96_000) / rate
    return { bytes: words * 2, samples: 6 * BLOCK_SAMPLES, sampleRate: rate / 2 ** (Math.max(8, version) - 8) }
  }
  const type = byte(2) >> 6
  const bytes = (((byte(2) & 7) << 8) + byte(3) + 1) * 2
  const code = (sizes >> 4) & 3
  const halfRate = (rates[code] ?? 0) / 2
  if (type === 3 || bytes < 7 || (rate === undefined && halfRate === 0)) return undefined
  const isFirst = type !== 1 && (byte(2) & 0x38) === 0
  const count = rate === undefined ? 6 : (blocks[code] ?? 0)
  return { bytes, samples: isFirst ? count * BLOCK_SAMPLES : 0, sampleRate: rate ?? halfRate }
}

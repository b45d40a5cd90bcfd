import type { Frame } from "@kiln/core/media"
import type { Walk, Work } from "../Work.ts"

const kbps = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640]
const rates = [48_000, 44_100, 32_000]
const blocks = [1, 2, 3, 6]
const BLOCK_SAMPLES = 256

/**
 * Reads the header of the AC-3 or E-AC-3 frame at `at` (ETSI TS 102 366); `undefined` without one. Frames that belong to another
 * frame, or to a program beside the first one, have no samples.
 */
const ac3FrameAt = (data: Uint8Array, at: number): Frame | undefined => {
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

/** The frames that a decoder finds in AC-3. */
export interface Ac3Found {
  readonly seconds: number
  readonly frames: number
  /** Bytes that belong to no frame. */
  readonly strayBytes: number
  /** True if a frame was found whose bytes are swapped in pairs. The search ends there. */
  readonly isSwapped: boolean
}

const SLICE_BYTES = 4_096
const SLICE_STEPS = 40

/** Follows frames as parsers do: from one to the next by their lengths, and where none follows, from the next header on. */
export function* followAc3(data: Uint8Array, work: Work): Walk<Ac3Found> {
  const swapped = new Uint8Array(SWAPPED_BYTES)
  let [seconds, frames, strayBytes] = [0, 0, 0]
  let at = 0
  while (at < data.length) {
    const frame = ac3FrameAt(data, at)
    if (frame !== undefined) {
      if (work.spend(1)) yield
      // Decoders play nothing of a frame that is cut.
      if (at + frame.bytes > data.length) break
      seconds += frame.samples / frame.sampleRate
      frames++
      at += frame.bytes
      continue
    }
    if (data[at] === 0x77 && data[at + 1] === 0x0b) {
      for (let index = 0; index < SWAPPED_BYTES; index++) swapped[index] = data[at + (index ^ 1)] ?? 0
      if (ac3FrameAt(swapped, 0) !== undefined) return { seconds, frames, strayBytes, isSwapped: true }
    }
    if (strayBytes % SLICE_BYTES === 0 && work.spend(SLICE_STEPS)) yield
    strayBytes++
    at++
  }
  return { seconds, frames, strayBytes, isSwapped: false }
}

/** Bytes of a header, up to the end of a pair. */
const SWAPPED_BYTES = 8

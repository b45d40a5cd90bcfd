import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { type Measurement, unreadable } from "./Measurement.ts"

// WAVE_FORMAT_* whose samples all have the same size, so that the size of the data is its length.
const uncompressed = new Set([
  0x0001 /* PCM */, 0x0003 /* float */, 0x0006 /* A-law */, 0x0007 /* µ-law */, 0xfffe /* extensible */,
])

// What live writers leave in the length they could not know.
const unknownLengths = new Set([0, 0xffff_ffff])

/**
 * Length of a WAVE file: the audio bytes that are really there over the bytes a second takes. RF64 and BW64, RIFF with
 * 64-bit lengths, are WAVE too.
 */
export function* wavDuration(cursor: ByteCursor): Scan<Measurement> {
  let bytesPerSecond = 0
  let longDataBytes: number | undefined
  yield* cursor.skip(12)
  while (yield* cursor.need(8)) {
    const id = cursor.ascii(0, 4)
    const bytes = cursor.u32(4, true)
    yield* cursor.skip(8)
    if (id === "data") {
      if (bytesPerSecond === 0) return unreadable("wav: the sample format is missing or impossible")
      const declared = unknownLengths.has(bytes) ? (longDataBytes ?? Infinity) : bytes
      return { seconds: (yield* cursor.skip(declared)) / bytesPerSecond }
    }
    if (id === "fmt " && bytes >= 16 && (yield* cursor.need(16))) bytesPerSecond = byteRate(cursor)
    if (id === "ds64" && bytes >= 16 && (yield* cursor.need(16))) longDataBytes = cursor.u64(8, true)
    // Chunks begin at even offsets.
    yield* cursor.skip(bytes + (bytes % 2))
  }
  return unreadable("wav: no audio data")
}

/** From what a decoder goes by: the byte rate the header states is only used where samples have no fixed size. */
const byteRate = (cursor: ByteCursor): number => {
  const format = cursor.u16(0, true)
  const channels = cursor.u16(2, true)
  const sampleRate = cursor.u32(4, true)
  const statedByteRate = cursor.u32(8, true)
  const bytesPerSample = Math.ceil(cursor.u16(14, true) / 8)
  if (sampleRate === 0 || channels === 0) return 0
  return uncompressed.has(format) ? sampleRate * channels * bytesPerSample : statedByteRate
}

import { MAX_PIECES, startsWith, viewOf } from "./bytes.ts"

/** Lengths from here on are placeholders of streaming encoders: 0xFFFFFFFF, or 0x7FFFF000 for some. */
const UNKNOWN_LENGTH = 0x7fff_f000

/**
 * Returns what is wrong with a WAVE file; `undefined` if it describes its samples and has as many as it states, at least one.
 * Data after the samples is ignored, and so is the total length, which many encoders get wrong.
 */
export const wavProblem = (data: Uint8Array): string | undefined => {
  const view = viewOf(data)
  let bytesPerFrame = 0
  let longDataBytes = 0
  let at = 12
  for (let chunks = 0; at + 8 <= data.length && chunks < MAX_PIECES; chunks++) {
    const bytes = view.getUint32(at + 4, true)
    const body = at + 8
    if (startsWith(data, at, "data")) {
      if (bytesPerFrame === 0) return "its format chunk is missing or invalid"
      // An encoder that went back to fill in the total length knew that there are no samples.
      if (bytes === 0 && view.getUint32(4, true) + 8 === data.length) return "it has no samples"
      const stated = bytes === 0xffff_ffff ? longDataBytes : bytes
      return samplesProblem(data.length - body, stated, bytesPerFrame)
    }
    if (bytes > data.length - body) return "a chunk before its samples is cut short"
    if (startsWith(data, at, "fmt ") && bytes >= 16) bytesPerFrame = frameBytes(view, body)
    if (startsWith(data, at, "ds64") && bytes >= 16) longDataBytes = uint64(view, body + 8)
    // Chunks begin at even offsets.
    at = body + bytes + (bytes % 2)
  }
  return "it has no samples"
}

/** Returns the bytes of one sample of every channel; 0 if the description is invalid. */
const frameBytes = (view: DataView, at: number): number => {
  const [format, channels] = [view.getUint16(at, true), view.getUint16(at + 2, true)]
  const sampleRate = view.getUint32(at + 4, true)
  return format === 0 || channels === 0 || sampleRate === 0 ? 0 : view.getUint16(at + 12, true)
}

const samplesProblem = (present: number, stated: number, bytesPerFrame: number): string | undefined => {
  const isUnknown = stated === 0 || stated >= UNKNOWN_LENGTH
  if (Math.min(present, isUnknown ? present : stated) < bytesPerFrame) return "it has no samples"
  return isUnknown || stated <= present ? undefined : `it has ${present} of ${stated} bytes of samples`
}

/** Above 2^53 it is rounded, which is past any end. */
const uint64 = (view: DataView, at: number): number => view.getUint32(at + 4, true) * 2 ** 32 + view.getUint32(at, true)

import { chunkAt, dataBytes, viewOf } from "../../media/index.ts"
import { MAX_PIECES } from "./pieces.ts"

/**
 * Returns what is wrong with a WAVE file; `undefined` if it describes its samples and has as many as it states, at least one.
 * Data after the samples is ignored, and so is the total length, which many encoders get wrong.
 */
export const wavProblem = (data: Uint8Array): string | undefined => {
  const view = viewOf(data)
  let bytesPerFrame = 0
  let longBytes = 0
  let at = 12
  for (let chunks = 0; chunks < MAX_PIECES; chunks++) {
    const chunk = chunkAt(data, at)
    if (chunk === undefined) break
    const { body, bytes, name } = chunk
    if (name === "data") {
      if (bytesPerFrame === 0) return "its format chunk is missing or invalid"
      // An encoder that went back to fill in the total length knew that there are no samples.
      const isEmpty = bytes === 0 && view.getUint32(4, true) + 8 === data.length
      const samples = dataBytes(data, body, bytes, longBytes)
      if (isEmpty || samples.bytes < bytesPerFrame) return "it has no samples"
      return samples.isCut ? `its samples are cut short after ${samples.bytes} bytes` : undefined
    }
    if (bytes > data.length - body) return "a chunk before its samples is cut short"
    if (name === "fmt " && bytes >= 16) bytesPerFrame = frameBytes(view, body)
    // Above 2^53 it is rounded, which is past any end.
    if (name === "ds64" && bytes >= 16)
      longBytes = view.getUint32(body + 12, true) * 2 ** 32 + view.getUint32(body + 8, true)
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

import { afterTags, type Frame } from "../../media/index.ts"

/** Returns what is wrong with audio that consists only of frames and tags; `undefined` if it is complete. */
export const framesProblem = (
  data: Uint8Array,
  frameAt: (data: Uint8Array, at: number) => Frame | undefined,
): string | undefined => {
  let frames = 0
  let at = afterTags(data, 0)
  while (at < data.length) {
    const frame = frameAt(data, at)
    if (frame !== undefined) frames++
    const next = frame === undefined ? afterTags(data, at) : at + frame.bytes
    if (next === at) return `what follows ${frames} frames is neither a frame nor a tag`
    at = next
  }
  return at > data.length ? `it is cut short in or after its frame ${frames}` : undefined
}

import { afterTags } from "./tags.ts"

/**
 * Returns what is wrong with audio that consists only of frames and tags; `undefined` if it is complete. `lengthAt` returns the
 * length in bytes of the frame whose header is at an offset, or 0 without one.
 */
export const framesProblem = (
  data: Uint8Array,
  lengthAt: (data: Uint8Array, at: number) => number,
): string | undefined => {
  let frames = 0
  let at = afterTags(data, 0)
  while (at < data.length) {
    const length = lengthAt(data, at)
    if (length > 0) frames++
    const next = length > 0 ? at + length : afterTags(data, at)
    if (next === at) return `what follows ${frames} frames is neither a frame nor a tag`
    at = next
  }
  return at > data.length ? `it is cut short in or after its frame ${frames}` : undefined
}

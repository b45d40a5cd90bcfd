import { crc16, startsWith, viewOf } from "../../media/index.ts"

const STREAMINFO_BYTES = 34
const ID3V1_BYTES = 128

/**
 * Returns what is wrong with a FLAC file; `undefined` if it has its metadata and all frames are complete. Every frame ends with
 * its own checksum, which returns the register to zero, so one computation over all frames suffices. A cut between two frames is
 * not detected.
 */
export const flacProblem = (data: Uint8Array): string | undefined => {
  const first = firstFrame(data)
  if (typeof first === "string") return first
  if (data[first] !== 0xff || ((data[first + 1] ?? 0) & 0xfe) !== 0xf8) return "it has no frame"
  const end = data.length - (startsWith(data, data.length - ID3V1_BYTES, "TAG") ? ID3V1_BYTES : 0)
  return crc16(data, first, end) === 0 ? undefined : "its frames are cut short or damaged"
}

/** Returns the offset at which the metadata ends, or what is wrong with it. */
const firstFrame = (data: Uint8Array): number | string => {
  const view = viewOf(data)
  let at = 4
  for (;;) {
    if (at + 4 > data.length) return "its metadata is cut short"
    const head = view.getUint32(at)
    const [isLast, type, bytes] = [head >>> 31 === 1, (head >>> 24) & 0x7f, head & 0xff_ffff]
    if (at === 4 && (type !== 0 || bytes !== STREAMINFO_BYTES)) return "its stream information is missing or invalid"
    at += 4 + bytes
    if (isLast) return at
  }
}

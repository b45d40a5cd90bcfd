import { mpegFrameAt, readEbmlNumber } from "./bytes.ts"

/**
 * The container of a file, as its first bytes show it. `m4a` is missing: it is mp4 under another name, and the brand that would
 * tell it apart is optional.
 */
export type AudioContainer = "mp3" | "mp4" | "wav" | "webm"

/** Number of leading bytes that `sniffContainer` needs; a shorter file is passed whole. */
export const SNIFF_BYTES = 64

/**
 * Detects the container from the first bytes; returns `undefined` for any other content. It checks only the beginning: whether
 * the rest is valid shows when the file is decoded.
 */
export const sniffContainer = (firstBytes: Uint8Array): AudioContainer | undefined => {
  const bytes = firstBytes.subarray(0, SNIFF_BYTES)
  if (isWave(bytes)) return "wav"
  if (isWebm(bytes)) return "webm"
  if (isMp4(bytes)) return "mp4"
  if (isTagged(bytes) || hasMpegFrame(bytes)) return "mp3"
  return undefined
}

const ascii = (bytes: Uint8Array, from: number, to: number): string => String.fromCharCode(...bytes.subarray(from, to))

/** RF64 and BW64 are RIFF with 64-bit lengths. The length is ignored, because live writers leave 0 or 0xFFFFFFFF there. */
const isWave = (bytes: Uint8Array): boolean =>
  ["RIFF", "RF64", "BW64"].includes(ascii(bytes, 0, 4)) && ascii(bytes, 8, 12) === "WAVE"

/** An ID3v2 tag of version 2 to 4, or an APE tag. Some writers get the length wrong, so it does not matter here. */
const isTagged = (bytes: Uint8Array): boolean => {
  const [major = 0, revision = 0xff] = bytes.subarray(3, 5)
  const hasId3 = ascii(bytes, 0, 3) === "ID3" && major >= 2 && major <= 4 && revision !== 0xff && bytes.length >= 10
  return hasId3 || ascii(bytes, 0, 8) === "APETAGEX"
}

/**
 * The header of a frame of MPEG audio of layer II or III; `audio/mpeg` is the type of both. Not of layer I, whose pattern contains
 * the UTF-16 byte order mark.
 */
const hasMpegFrame = (bytes: Uint8Array): boolean =>
  bytes.length >= 4 && (mpegFrameAt(bytes, 0)?.layer ?? 1) !== 1 && ((bytes[3] ?? 0) & 3) !== 2

/**
 * ISO base media (mp4, m4a, mov). A file begins with `ftyp`; older and QuickTime-like writers begin with the movie, the media or
 * padding. These boxes are skipped as long as they lie within the given bytes.
 */
const isMp4 = (bytes: Uint8Array): boolean => {
  let at = 0
  while (at + 8 <= bytes.length) {
    const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(at)
    const type = ascii(bytes, at + 4, at + 8)
    if (type === "ftyp" || type === "styp" || type === "moov") return size >= 16
    // A size of 0 means "to the end of the file", 1 "the size follows as 64 bits".
    if (type === "mdat") return size <= 1 || size >= 8
    if (size < 8 || !(type === "free" || type === "skip" || type === "wide")) return false
    at += size
  }
  return at > 0
}

/** The id of an EBML element. */
const DOC_TYPE = 0x4282

/** An EBML header whose DocType is `webm`; Matroska has the same header with another DocType. */
const isWebm = (bytes: Uint8Array): boolean => {
  if (ascii(bytes, 0, 4) !== "\x1aE\xdf\xa3") return false
  const header = readEbmlNumber(bytes, 4)
  if (header === undefined) return false
  const begin = 4 + header.bytes
  const end = Math.min(bytes.length, begin + header.value)
  let at = begin
  while (at < end) {
    const id = readEbmlNumber(bytes, at)
    const size = id && readEbmlNumber(bytes, at + id.bytes)
    if (id === undefined || size === undefined) return false
    const content = at + id.bytes + size.bytes
    const next = content + size.value
    if (id.raw === DOC_TYPE) return next <= end && ascii(bytes, content, next).replace(/\0+$/, "") === "webm"
    at = next
  }
  return false
}

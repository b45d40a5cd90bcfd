import { readEbmlNumber } from "./ebmlNumber.ts"

/** The audio formats a client may declare. */

export const audioFormats = ["mp3", "mp4", "wav", "webm", "m4a"] as const
export type AudioFormat = (typeof audioFormats)[number]

/**
 * The container of a file, as its first bytes show it. `m4a` is missing: it is mp4 under another name, and the brand that would
 * tell it apart is optional.
 */
export type AudioContainer = "mp3" | "mp4" | "wav" | "webm"

const mp4Types = ["audio/mp4", "audio/m4a", "audio/x-m4a", "video/mp4"]

/** The media types under which a file of a format may be sent, in lower case, without parameters. */
export const acceptedMediaTypes: Readonly<Record<AudioFormat, ReadonlyArray<string>>> = {
  mp3: ["audio/mp3", "audio/mpeg", "audio/mpeg3", "audio/x-mp3", "audio/x-mpeg"],
  mp4: mp4Types,
  m4a: mp4Types,
  wav: ["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"],
  webm: ["audio/webm", "video/webm"],
}

export const isAudioFormat = (value: unknown): value is AudioFormat => audioFormats.some((format) => format === value)

const MEDIA_TYPE = /^[ \t]*([^;\s]+)[ \t]*(?:;|$)/

/**
 * Returns whether a `Content-Type` header matches the declared format. Ignores case and parameters; a missing header does not
 * match.
 */
export const acceptsContentType = (format: AudioFormat, header: string | undefined): boolean => {
  const mediaType = MEDIA_TYPE.exec(header ?? "")?.[1]
  return mediaType !== undefined && acceptedMediaTypes[format].includes(mediaType.toLowerCase())
}

/** Returns whether a file in this container may be declared as this format. */
export const containerMatches = (format: AudioFormat, container: AudioContainer | undefined): boolean =>
  container === (format === "m4a" ? "mp4" : format)

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
  if (hasId3Tag(bytes) || hasLayer3Frame(bytes)) return "mp3"
  return undefined
}

const ascii = (bytes: Uint8Array, from: number, to: number): string => String.fromCharCode(...bytes.subarray(from, to))

/** RF64 and BW64 are RIFF with 64-bit lengths. The length is ignored, because live writers leave 0 or 0xFFFFFFFF there. */
const isWave = (bytes: Uint8Array): boolean =>
  ["RIFF", "RF64", "BW64"].includes(ascii(bytes, 0, 4)) && ascii(bytes, 8, 12) === "WAVE"

/** An ID3v2 tag: version 2 to 4 and a length of four 7-bit bytes, as the tag's own specification says to detect it. */
const hasId3Tag = (bytes: Uint8Array): boolean => {
  const [major = 0, revision = 0xff] = bytes.subarray(3, 5)
  const length = bytes.subarray(6, 10)
  return (
    ascii(bytes, 0, 3) === "ID3" &&
    major >= 2 &&
    major <= 4 &&
    revision !== 0xff &&
    length.length === 4 &&
    length.every((byte) => byte < 0x80)
  )
}

/**
 * The header of an MPEG audio frame of layer III with a bitrate and a sample rate that exist. Layer III only: in the
 * other layers' patterns lie the UTF-16 byte order mark (layer I) and AAC's ADTS (layer bits 00).
 */
const hasLayer3Frame = (bytes: Uint8Array): boolean => {
  if (bytes.length < 4) return false
  const [sync = 0, kind = 0, rates = 0, mode = 0] = bytes
  const version = (kind >> 3) & 3
  const layer = (kind >> 1) & 3
  const bitrate = rates >> 4
  const sampleRate = (rates >> 2) & 3
  const emphasis = mode & 3
  return (
    sync === 0xff &&
    kind >= 0xe0 &&
    version !== 1 &&
    layer === 1 &&
    bitrate !== 0 &&
    bitrate !== 15 &&
    sampleRate !== 3 &&
    emphasis !== 2
  )
}

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

import { adtsFrameAt, afterTags, crc16, type Frame, mpegFrameAt, startsWith, viewOf } from "../media/bytes.ts"
import { boxAt, chunkAt, dataBytes, elementAt } from "../media/containers.ts"
import { resultInvalid } from "./ProviderError.ts"
import { checkBytes, type GeneratedFile } from "./checks.ts"
import { providerPort } from "./ProviderPort.ts"

/**
 * Maximum number of chunks, boxes or elements, more than any valid file of the accepted size has. The smallest take a few bytes,
 * so a file of nothing else would block the event loop for long.
 */
const MAX_PIECES = 500_000

const STREAMINFO_BYTES = 34
const ID3V1_BYTES = 128

/**
 * Returns what is wrong with a FLAC file; `undefined` if it has its metadata and all frames are complete. Every frame ends with
 * its own checksum, which returns the register to zero, so one computation over all frames suffices. A cut between two frames is
 * not detected.
 */
const flacProblem = (data: Uint8Array): string | undefined => {
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

const PAGE_HEADER = 27

/** The beginning of each codec's first packet, and the number of packets before the audio. */
const codecs = [
  { begins: "OpusHead", headers: 2 },
  { begins: "\x01vorbis", headers: 3 },
  { begins: "\x7fFLAC", headers: 2 },
]

/** Returns what is wrong with an Ogg file; `undefined` if it has complete pages of Opus, Vorbis or FLAC with an audio packet. */
const oggProblem = (data: Uint8Array): string | undefined => {
  const codec = codecs.find(({ begins }) => startsWith(data, PAGE_HEADER + (data[26] ?? 0), begins))
  if (codec === undefined) return "its codec is neither Opus nor Vorbis nor FLAC"
  let packets = 0
  let lastSegment = 0
  let at = 0
  while (at < data.length) {
    if (data.length - at >= 5 && !(startsWith(data, at, "OggS") && data[at + 4] === 0)) return `no page begins at ${at}`
    const segments = data[at + 26] ?? 0
    const body = at + PAGE_HEADER + segments
    let end = body
    for (let index = at + PAGE_HEADER; index < body; index++) {
      lastSegment = data[index] ?? 0
      end += lastSegment
      if (lastSegment < 255) packets++
    }
    if (body > data.length || end > data.length) return "its last page is cut short"
    at = end
  }
  // A segment of 255 bytes means that its packet continues.
  if (lastSegment === 255) return "its last packet is cut short"
  return packets > codec.headers ? undefined : "it has no audio packet"
}

/**
 * Returns what is wrong with a WAVE file; `undefined` if it describes its samples and has as many as it states, at least one.
 * Data after the samples is ignored, and so is the total length, which many encoders get wrong.
 */
const wavProblem = (data: Uint8Array): string | undefined => {
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

const Id = {
  ebml: 0x1a45dfa3,
  docType: 0x4282,
  segment: 0x18538067,
  tracks: 0x1654ae6b,
  trackEntry: 0xae,
  trackType: 0x83,
  cluster: 0x1f43b675,
  simpleBlock: 0xa3,
  blockGroup: 0xa0,
} as const

/**
 * Elements whose children are checked. The walk enters them, so the end that a live recording states for them does not matter.
 */
const enteredIds = new Set<number>([Id.ebml, Id.segment, Id.tracks, Id.trackEntry, Id.cluster])

/**
 * Returns what is wrong with a WebM; `undefined` if all elements are complete and include an audio track and a block in a
 * cluster.
 */
const webmProblem = (data: Uint8Array): string | undefined => {
  const seen = { webm: false, sound: false, cluster: false, block: false }
  let at = 0
  for (let elements = 0; at < data.length; elements++) {
    if (elements === MAX_PIECES) return `it has more than ${MAX_PIECES} elements`
    const element = elementAt(data, at, Infinity)
    if (element === undefined) return `no whole element begins at ${at}`
    const { body, id, isUnknown } = element
    const end = isUnknown ? body : element.end
    if (end > data.length) return "its last element is cut short"
    if (isUnknown && !enteredIds.has(id)) return `the element at ${at} has no size`
    if (id === Id.docType) seen.webm = startsWith(data, body, "webm")
    if (id === Id.trackType) seen.sound ||= data[end - 1] === 2
    if (id === Id.cluster) seen.cluster = true
    if (id === Id.simpleBlock || id === Id.blockGroup) seen.block ||= seen.cluster && end > body
    at = enteredIds.has(id) ? body : end
  }
  if (!seen.webm) return "it is Matroska, but not WebM"
  if (!seen.sound) return "it has no audio track"
  return seen.block ? undefined : "it has no audio block"
}

/** Returns what is wrong with audio that consists only of frames and tags; `undefined` if it is complete. */
const framesProblem = (
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

/** The media type of audio bytes, or why they are not valid audio, as a log message without any of the content. */
type GeneratedAudio = { readonly mediaType: string; readonly problem?: undefined } | { readonly problem: string }

interface Container {
  readonly mediaType: string
  /** Whether the bytes begin like this container; `first` is the offset after leading tags. */
  readonly begins: (data: Uint8Array, first: number) => boolean
  /** Returns what is wrong with bytes that begin like it; `undefined` if they are valid. */
  readonly problem: (data: Uint8Array) => string | undefined
}

/** Returns what is wrong with AAC in ADTS frames; `undefined` if there is at least one and all are complete. */
const adtsProblem = (data: Uint8Array): string | undefined => framesProblem(data, adtsFrameAt)

/** Returns what is wrong with an MP3; `undefined` if it has at least one frame of layer III and all are complete. */
const mp3Problem = (data: Uint8Array): string | undefined =>
  framesProblem(data, (_, at) => {
    const frame = mpegFrameAt(data, at)
    return frame?.layer === 3 ? frame : undefined
  })

/** Boxes whose children are checked: the path to a track's type. */
const enteredBoxes = new Set(["moov", "trak", "mdia"])

/**
 * Returns what is wrong with an MP4; `undefined` if all boxes are complete and include a movie with an audio track, and its
 * media.
 */
const mp4Problem = (data: Uint8Array): string | undefined => {
  const seen = { movie: false, sound: false, media: false, fragment: false }
  let at = 0
  for (let boxes = 0; at < data.length; boxes++) {
    if (boxes === MAX_PIECES) return `it has more than ${MAX_PIECES} boxes`
    const box = boxAt(data, at, data.length)
    if (box === undefined || box.end > data.length) return "its last box is cut short"
    if (box.type === "moov") seen.movie = true
    if (box.type === "hdlr" && seen.movie) seen.sound ||= startsWith(data, box.body + 8, "soun")
    // The description of a fragment: its media follow.
    if (box.type === "moof") seen.fragment = true
    if (box.type === "mdat") {
      seen.media ||= box.end > box.body
      seen.fragment = false
    }
    at = enteredBoxes.has(box.type) ? box.body : box.end
  }
  if (!seen.sound) return "it has no audio track"
  return seen.media && !seen.fragment ? undefined : "its media data is missing"
}

const containers: ReadonlyArray<Container> = [
  {
    mediaType: "audio/wav",
    begins: (data) => ["RIFF", "RF64", "BW64"].some((name) => startsWith(data, 0, name)) && startsWith(data, 8, "WAVE"),
    problem: wavProblem,
  },
  { mediaType: "audio/ogg", begins: (data) => startsWith(data, 0, "OggS"), problem: oggProblem },
  { mediaType: "audio/flac", begins: (data) => startsWith(data, 0, "fLaC"), problem: flacProblem },
  { mediaType: "audio/mp4", begins: (data) => startsWith(data, 4, "ftyp"), problem: mp4Problem },
  { mediaType: "audio/webm", begins: (data) => startsWith(data, 0, "\x1aE\xdf\xa3"), problem: webmProblem },
  // Frames without a container; the two bits after the sync word tell them apart.
  { mediaType: "audio/aac", begins: (data, first) => hasSync(data, first, 0b00), problem: adtsProblem },
  { mediaType: "audio/mpeg", begins: (data, first) => hasSync(data, first, 0b01), problem: mp3Problem },
]

const hasSync = (data: Uint8Array, at: number, layer: number): boolean => {
  const second = data[at + 1] ?? 0
  return data[at] === 0xff && second >= 0xe0 && ((second >> 1) & 3) === layer
}

/**
 * Determines the audio format of these bytes by walking the container to its end and requiring that all frames, chunks, pages or
 * boxes are complete. Nothing is decoded or copied. If a container does not state its total length (frames, pages, streamed
 * files), a file that was cut between two pieces looks like a shorter one.
 */
export const generatedAudio = (data: Uint8Array): GeneratedAudio => {
  // Zeros may follow a tag; a file that begins with zeros is raw samples without a container.
  const first = data[0] === 0 ? 0 : afterTags(data, 0)
  const container = containers.find(({ begins }) => begins(data, first))
  if (container === undefined) return { problem: "the first bytes belong to no known audio format" }
  const problem = container.problem(data)
  return problem === undefined ? { mediaType: container.mediaType } : { problem: `${container.mediaType}: ${problem}` }
}

/** Bytes: an hour and a half of speech as MP3, six minutes as uncompressed WAV. */
const maxAudioBytes = 32 * 1_024 * 1_024

/**
 * Requires a complete audio file, as far as its container tells, of at most 32 MiB. The media type follows from the bytes,
 * not from what the provider says. Throws `result_invalid`.
 */
export const checkAudio = (answer: unknown): GeneratedFile => {
  const data = checkBytes(answer, maxAudioBytes)
  const found = generatedAudio(data)
  if (found.problem !== undefined) throw resultInvalid(`expected audio, got ${data.length} bytes: ${found.problem}`)
  return { data, mediaType: found.mediaType }
}

/** Text to audio, in a container: raw samples are not accepted. */
export const speech = providerPort({
  name: "speech",
  callLimitMs: 180_000,
  check: (answer, _request: { readonly text: string; readonly voice: string }) => checkAudio(answer),
})

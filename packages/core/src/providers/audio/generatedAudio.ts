import { adtsFrameAt, afterTags, boxAt, type Frame, mpegFrameAt, startsWith } from "../../media/index.ts"
import { checkBytes, type GeneratedFile } from "../checks.ts"
import { resultInvalid } from "../ProviderError.ts"
import { flacProblem } from "./flacProblem.ts"
import { oggProblem } from "./oggProblem.ts"
import { wavProblem } from "./wavProblem.ts"
import { webmProblem } from "./webmProblem.ts"
import { MAX_PIECES } from "./pieces.ts"

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
const entered = new Set(["moov", "trak", "mdia"])

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
    at = entered.has(box.type) ? box.body : box.end
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

import { afterTags, startsWith } from "../../media/index.ts"
import { adtsProblem } from "./adtsProblem.ts"
import { flacProblem } from "./flacProblem.ts"
import { mp3Problem } from "./mp3Problem.ts"
import { mp4Problem } from "./mp4Problem.ts"
import { oggProblem } from "./oggProblem.ts"
import { wavProblem } from "./wavProblem.ts"
import { webmProblem } from "./webmProblem.ts"

/** The media type of audio bytes, or why they are not valid audio, as a log message without any of the content. */
export type GeneratedAudio = { readonly mediaType: string; readonly problem?: undefined } | { readonly problem: string }

interface Container {
  readonly mediaType: string
  /** Whether the bytes begin like this container; `first` is the offset after leading tags. */
  readonly begins: (data: Uint8Array, first: number) => boolean
  /** Returns what is wrong with bytes that begin like it; `undefined` if they are valid. */
  readonly problem: (data: Uint8Array) => string | undefined
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

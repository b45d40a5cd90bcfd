import { adtsProblem } from "./adtsProblem.ts"
import { startsWith } from "./bytes.ts"
import { flacProblem } from "./flacProblem.ts"
import { mp3Problem } from "./mp3Problem.ts"
import { mp4Problem } from "./mp4Problem.ts"
import { oggProblem } from "./oggProblem.ts"
import { afterTags } from "./tags.ts"
import { wavProblem } from "./wavProblem.ts"
import { webmProblem } from "./webmProblem.ts"

/** The media type of bytes that are audio, or why they are not: words for a log, without a byte of the content. */
export type GeneratedAudio = { readonly mediaType: string; readonly problem?: undefined } | { readonly problem: string }

interface Container {
  readonly mediaType: string
  /** Whether the bytes begin like this container; `first` is where they do when tags are left out. */
  readonly begins: (data: Uint8Array, first: number) => boolean
  /** What is wrong with bytes that begin like it; `undefined` if nothing. */
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
 * Tells what audio these bytes are, by walking the container to its end: frames, chunks, pages or boxes, each of them whole.
 * Nothing is decoded and nothing copied. Where a container does not say how much there is to come (frames, pages,
 * streamed files), a file that ends between two of its pieces cannot be told from a shorter one.
 */
export const generatedAudio = (data: Uint8Array): GeneratedAudio => {
  // Zeros may follow a tag; what begins with them is samples without a container.
  const first = data[0] === 0 ? 0 : afterTags(data, 0)
  const container = containers.find(({ begins }) => begins(data, first))
  if (container === undefined) return { problem: "no audio file begins like this" }
  const problem = container.problem(data)
  return problem === undefined ? { mediaType: container.mediaType } : { problem: `${container.mediaType}: ${problem}` }
}

import { readFile } from "node:fs/promises"
import { extname } from "node:path"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type AudioFormat, audioFormats, containerMatches, limits, sniffContainer } from "@kiln/core/domain"
import { MediaProbe } from "@kiln/core/ports"
import { MediaProbeLive } from "@kiln/media-probe"
import { causeMessage, type CommandFailed, failed } from "../CommandFailed.ts"
import { sizeOf } from "../Output.ts"

/** A recording, measured before anything is sent. */
export interface AudioFile {
  readonly path: string
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly format: AudioFormat
  readonly seconds: number
}

/** The longest declaration; a length of a millisecond's fraction more is one of rounding. */
const declarable = (seconds: number): number => Math.min(seconds, limits.declaredSeconds)

const formatOf = (path: string, bytes: Uint8Array): AudioFormat | undefined => {
  const container = sniffContainer(bytes)
  const extension = extname(path).slice(1).toLowerCase()
  const named = audioFormats.find((format) => format === extension)
  return named !== undefined && containerMatches(named, container) ? named : container
}

/** Returns why a file cannot be sent. The service would say the same, after all of it was sent. */
const refusal = (path: string, bytes: number, format: AudioFormat | undefined): string | undefined => {
  if (bytes === 0) return `${path} is empty`
  if (bytes > limits.uploadBytes)
    return `${path} has ${sizeOf(bytes)}; a file may have at most ${sizeOf(limits.uploadBytes)}: split it, or compress it, such as to MP3`
  return format === undefined
    ? `${path} is not audio in a format that kiln reads: convert it to one of ${audioFormats.join(", ")}`
    : undefined
}

const measure = (path: string, bytes: Uint8Array, format: AudioFormat) =>
  Effect.flatMap(MediaProbe, (probe) => probe.probe({ bytes: bytes.length, format, content: Stream.make(bytes) })).pipe(
    Effect.provide(MediaProbeLive.layer),
    Effect.mapError((error) =>
      failed(
        `${path} cannot be read as ${format}: ${error._tag === "MediaUnreadable" ? error.reason : causeMessage(error.cause)}`,
      ),
    ),
  )

/** Reads and measures a recording. `--seconds` declares the length of a file that carries none. */
export const readAudio = (path: string, declared: number | undefined): Effect.Effect<AudioFile, CommandFailed> =>
  Effect.gen(function* () {
    const bytes = yield* Effect.tryPromise({
      try: async () => new Uint8Array(await readFile(path)),
      catch: (cause) => failed(`cannot read ${path}: ${causeMessage(cause)}`),
    })
    const format = formatOf(path, bytes)
    const problem = refusal(path, bytes.length, format)
    if (problem !== undefined || format === undefined) return yield* failed(problem ?? path)
    const seconds = declared ?? (yield* measure(path, bytes, format)).seconds
    if (seconds === undefined)
      return yield* failed(`${path} does not say how long it is: declare its length with --seconds`)
    if (seconds > limits.maxMeasuredSeconds)
      return yield* failed(
        `${path} lasts ${Math.ceil(seconds)} s; a recording may last at most ${limits.declaredSeconds} s: split it`,
      )
    return { path, bytes, format, seconds: declarable(seconds) }
  })

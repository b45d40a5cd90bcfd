import type { AudioFormat } from "@kiln/core/domain"
import { isSpeech, type Layout, type Signal, type SignalKind, signalKinds, signalName } from "./signals.ts"

/** Extra input files for encoders, made once and cached. */
export type Asset = "cover.png" | "cover.jpg" | "large-cover.png" | "large-cover.jpg" | "other.wav" | "chapters.txt"

/** Programs and npm packages. An npm package has the prefix `npm:`; a browser is a program. */
export type Tool = string

/** Decoded PCM, for encoders that run in this process. */
export interface Pcm {
  readonly rate: number
  readonly channels: number
  /** Interleaved. */
  readonly samples: Int16Array
}

/** Imports an optional npm package. */
// eslint-disable-next-line typescript/no-explicit-any
export type Load = (name: string) => Promise<any>

export type Step =
  | {
      readonly kind: "run"
      readonly tools: ReadonlyArray<Tool>
      readonly program: string
      /** `$in`, `$out`, `$work` (a temporary directory) and the assets' names with `$` are replaced by paths. */
      readonly args: ReadonlyArray<string>
      /** Extension of the output. */
      readonly ext: string
      readonly pipeIn: boolean
      readonly pipeOut: boolean
    }
  | { readonly kind: "edit"; readonly label: string; readonly edit: (file: Buffer) => Buffer }
  | {
      readonly kind: "encode"
      readonly tools: ReadonlyArray<Tool>
      readonly label: string
      readonly ext: string
      readonly encode: (input: Buffer, load: Load) => Promise<Uint8Array>
    }
  | {
      readonly kind: "record"
      readonly browser: Tool
      readonly tools: ReadonlyArray<Tool>
      readonly recording: Recording
    }

/** A recording by a browser's `MediaRecorder`. Its length depends on the browser's clock. */
export interface Recording {
  readonly mimeType: string
  readonly bitsPerSecond?: number
  readonly sliceMs?: number
  readonly withVideo?: boolean
  /** Pauses the recorder in the middle. */
  readonly hasPause?: boolean
  /** Records the browser's fake microphone instead of the source. */
  readonly isMicrophone?: boolean
}

export interface Recipe {
  readonly name: string
  readonly format: AudioFormat
  readonly source: Signal
  readonly steps: ReadonlyArray<Step>
  /** Encoder and container, to spread samples evenly. */
  readonly group: string
  readonly tools: ReadonlyArray<Tool>
  /** Approximate duration of the result; a decoder that returns something else did not decode the whole file. */
  readonly seconds: number | undefined
  /** True if every build has a different duration. */
  readonly isLive: boolean
}

export interface RecipeShape {
  readonly format: AudioFormat
  /** Encoder and container, such as `lame-mp3`. */
  readonly group: string
  /** Settings of the encoder; with the group and the source a unique name. */
  readonly settings: string
  readonly source: Signal
  readonly steps: ReadonlyArray<Step>
  /** The duration of the source by default; `undefined` if it is not known. */
  readonly seconds?: number | undefined
}

export const recipe = (shape: RecipeShape): Recipe => {
  const { format, group, settings, source, steps } = shape
  const named = steps.flatMap((step) => (step.kind === "edit" ? [] : step.tools))
  const isLive = steps.some(({ kind }) => kind === "record")
  const tools = [...new Set([...(isSpeech(source) ? ["espeak-ng"] : []), ...named])]
  const name = [group, settings, signalName(source)].filter((part) => part !== "").join(".")
  const seconds = "seconds" in shape ? shape.seconds : source.seconds
  return { name, format, source, steps, group, tools, seconds, isLive }
}

/** Runs a program that reads and writes files. */
export const run = (tool: Tool, ext: string, ...args: ReadonlyArray<string>): Step => ({
  kind: "run",
  tools: [tool],
  program: tool,
  ext,
  args,
  pipeIn: false,
  pipeOut: false,
})

/** Runs a program that writes to a pipe, and so cannot go back to complete its header. */
export const pipe = (tool: Tool, ext: string, ...args: ReadonlyArray<string>): Step => ({
  kind: "run",
  tools: [tool],
  program: tool,
  ext,
  args,
  pipeIn: args.includes("$stdin"),
  pipeOut: true,
})

/** Runs a shell script, with the input as `$1` and the output as `$2`; further arguments follow. */
export const shell = (
  tools: ReadonlyArray<Tool>,
  ext: string,
  script: string,
  ...args: ReadonlyArray<string>
): Step => ({
  kind: "run",
  tools,
  program: "sh",
  ext,
  args: ["-c", script, "sh", "$in", "$out", ...args],
  pipeIn: false,
  pipeOut: false,
})

/** Runs a Python program with a module that Debian packages. */
export const python = (module: string, ext: string, script: string, ...args: ReadonlyArray<string>): Step => ({
  kind: "run",
  tools: [`python:${module}`],
  program: "/usr/bin/python3",
  ext,
  args: ["-c", script, "$in", "$out", ...args],
  pipeIn: false,
  pipeOut: false,
})

/** Runs ffmpeg from the input to the output, without messages and metadata. */
export const ffmpeg = (ext: string, ...args: ReadonlyArray<string>): Step =>
  run("ffmpeg", ext, "-v", "error", "-nostdin", "-y", "-i", "$in", ...args, "$out")

/** Runs ffmpeg with its output in a pipe. */
export const ffmpegPipe = (muxer: string, ext: string, ...args: ReadonlyArray<string>): Step =>
  pipe("ffmpeg", ext, "-v", "error", "-nostdin", "-i", "$in", ...args, "-f", muxer, "pipe:1")

/** Runs a GStreamer pipeline between the source and the output. */
export const gstreamer = (ext: string, pipeline: string): Step =>
  run(
    "gst-launch-1.0",
    ext,
    ..."-q filesrc location=$in ! wavparse ! audioconvert ! audioresample !".split(" "),
    ...pipeline.split(" ").filter((part) => part !== ""),
    "!",
    "filesink",
    "location=$out",
  )

/** Runs VLC's transcoder. VLC refuses to run as root. */
export const vlc = (ext: string, transcode: string, mux: string): Step =>
  shell(
    ["cvlc", "setpriv"],
    ext,
    `as=; if [ "$(id -u)" = 0 ]; then chmod 777 "$3"; as="setpriv --reuid 65534 --clear-groups"; fi
     HOME="$3" exec $as cvlc -q --no-sout-video -I dummy "$1" "--sout=#transcode{${transcode}}:std{access=file,mux=${mux},dst=$2}" vlc://quit`,
    "$work",
  )

export const edit = (label: string, change: (file: Buffer) => Buffer): Step => ({ kind: "edit", label, edit: change })

/** A hash of a text, for choices that stay the same when recipes are added. */
const hashOf = (text: string): number => {
  let hash = 0x811c_9dc5
  for (const char of text) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x0100_0193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}

/** Returns an element of a list, always the same for a seed. */
export const pick = <A>(list: ReadonlyArray<A>, seed: string): A => {
  const picked = list[hashOf(seed) % list.length]
  if (picked === undefined) throw new Error("cannot pick from an empty list")
  return picked
}

const durations = [0.2, 0.35, 0.5, 0.5, 0.75, 1, 1, 1.25, 1.5, 1.5, 2, 2, 2.6, 3, 4, 4, 6, 9, 12]

/** Returns a signal for a seed, with what is given. */
export const signal = (
  seed: string,
  given: {
    readonly rate: number
    readonly layout?: Layout
    readonly kind?: SignalKind
    readonly seconds?: number
  },
): Signal => ({
  kind: given.kind ?? pick(signalKinds, `${seed} kind`),
  rate: given.rate,
  layout: given.layout ?? pick<Layout>(["mono", "stereo", "mono", "stereo", "dual-mono"], `${seed} layout`),
  seconds: given.seconds ?? pick(durations, `${seed} seconds`),
})

/** Returns several different signals. */
export const signals = (
  count: number,
  seed: string,
  given: Parameters<typeof signal>[1] & { readonly rates?: ReadonlyArray<number> },
): ReadonlyArray<Signal> => {
  const found = new Map<string, Signal>()
  for (let i = 0; found.size < count && i < count * 20; i++) {
    const made = signal(`${seed} ${i}`, given)
    found.set(signalName(made), made)
  }
  return [...found.values()]
}

/** Reads a 16-bit WAV file of `signals.ts`. */
export const pcmOf = (file: Buffer): Pcm => ({
  channels: file.readUInt16LE(22),
  rate: file.readUInt32LE(24),
  samples: new Int16Array(file.buffer.slice(file.byteOffset + 44, file.byteOffset + file.length)),
})

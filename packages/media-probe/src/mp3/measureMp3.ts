import { id3End, mpegFrameAt, startsWith, viewOf } from "@kiln/core/media"
import { afterAllTags, areMostlyFrames, followFrames, isSameMode, sureFrame } from "../codecs/mpegFrames.ts"
import { isOtherFile, otherStream, probedWindows } from "../codecs/otherStream.ts"
import { type Measurement, unreadable } from "../Measurement.ts"
import type { Walk, Work } from "../Work.ts"

/** Bytes before the first frame that decoders search. */
const MAX_LEAD = 65_536

/** Bytes by which decoders choose the format of a file, at most. */
const MAX_PROBE = 1_048_576

/** Samples by which the filters of a decoder delay its output. */
const DECODER_DELAY = 529

/**
 * Measures an MP3 by counting its complete frames, less the delay and padding that its encoder states. The number of frames in an
 * encoder's table does not matter: it does not change when the file is cut, and can be forged.
 */
export function* measureMp3(file: Uint8Array, work: Work): Walk<Measurement> {
  const start = yield* afterId3(file, work)
  const table = encoderTable(file, start)
  const from = table?.end ?? start
  const first = yield* firstFrame(file, from, work)
  if (first === undefined) return unreadable("mp3: no frames")
  if (isOtherFile(file.subarray(start))) return unreadable("mp3: decoders find another kind of file")
  const other = yield* otherStream(probedWindows(file, sureEnd(file, start)), work)
  if (other !== undefined) return unreadable(`mp3: decoders find ${other}`)
  if (!isLead(file, start, first)) return unreadable("mp3: begins neither with a frame nor with the rest of a tag")
  const found = yield* followFrames(file, first, file.length, work)
  if (found.frames === 0) return unreadable("mp3: no frames")
  const lead = first - Math.min(first, yield* afterAllTags(file, from, file.length, work))
  // The lead may be the rest of a tag whose stated length is wrong.
  if (!areMostlyFrames(found) || lead > found.frameBytes) return unreadable("mp3: too few frames")
  return { seconds: Math.max(0, found.seconds - (table?.silence(found.seconds) ?? 0)) }
}

/** Returns the offset after the tags that decoders skip without a look at their content. */
export function* afterId3(file: Uint8Array, work: Work): Walk<number> {
  for (let at = 0; ;) {
    if (work.spend(1)) yield
    const next = Math.min(file.length, id3End(file, at))
    if (next === at) return at
    at = next
  }
}

/** The frame that holds an encoder's table of contents instead of sound. */
interface EncoderTable {
  /** Offset after the frame. */
  readonly end: number
  /** Returns the seconds of delay and padding in this many seconds of frames. */
  readonly silence: (seconds: number) => number
}

/** Reads the table of a Xing, Info or VBRI frame at `at`; `undefined` for one that states nothing, which decoders play. */
const encoderTable = (file: Uint8Array, at: number): EncoderTable | undefined => {
  const frame = mpegFrameAt(file, at)
  const tag = at + 4 + (frame?.sideInfoBytes ?? 0)
  if (frame?.layer !== 3 || tag + 200 > file.length) return undefined
  const view = viewOf(file)
  let [frames, bytes] = [0, 0]
  let [delay, padding] = [0, 0]
  if (startsWith(file, tag, "Xing") || startsWith(file, tag, "Info")) {
    const flags = view.getUint32(tag + 4)
    let next = tag + 8
    const field = (flag: number, length: number): number => {
      const isThere = (flags & flag) !== 0
      if (isThere) next += length
      return isThere ? view.getUint32(next - length) : 0
    }
    frames = field(1, 4)
    bytes = field(2, 4)
    field(4, 100)
    field(8, 4)
    const follows = file.length - at - 4
    // Another file was joined to this one, so the table describes only a part.
    if (bytes > 0 && follows - bytes > bytes >> 4) frames = 0
    if (["LAME", "Lavf", "Lavc"].some((encoder) => startsWith(file, next, encoder))) {
      const delays = view.getUint32(next + 20) & 0xff_ffff
      delay = (delays >> 12) + DECODER_DELAY
      padding = Math.max(0, (delays & 0xfff) - DECODER_DELAY)
    }
  } else if (startsWith(file, at + 36, "VBRI") && view.getUint16(at + 40) === 1) {
    bytes = view.getUint32(at + 46)
    frames = view.getUint32(at + 50)
  }
  if (frames === 0 && bytes === 0) return undefined
  const silence = (seconds: number): number => {
    const samples = Math.round(seconds * frame.sampleRate)
    const stated = frames * frame.samples
    const atEnd = Math.min(samples, stated) - (stated - padding)
    return (delay + Math.max(0, frames === 0 ? 0 : atEnd)) / frame.sampleRate
  }
  return { end: at + frame.bytes, silence }
}

/** Returns the offset of the first frame that another one of its kind follows; `undefined` if decoders find none. */
function* firstFrame(file: Uint8Array, from: number, work: Work): Walk<number | undefined> {
  for (let at = from; at < from + MAX_LEAD; at++) {
    if (at % 1024 === 0 && work.spend(1)) yield
    const frame = file[at] === 0xff ? mpegFrameAt(file, at) : undefined
    if (frame === undefined) continue
    if (work.spend(1)) yield
    const next = at + frame.bytes
    if (next + 4 > file.length) return undefined
    if (mpegFrameAt(file, next)?.kind === frame.kind && isSameMode(file, at, next)) return at
  }
  return from
}

/** Returns the end of the bytes after which decoders are sure of MPEG audio. */
const sureEnd = (file: Uint8Array, start: number): number => {
  const sure = sureFrame(file, start)
  return sure === undefined ? start + MAX_PROBE : sure + 4
}

/** Tags that writers state too long by their own header, so that the first frame seems to begin inside of them. */
const ID3_HEADER_BYTES = 10

/**
 * Returns whether the bytes before the first frame are what MP3 files begin with: zeros and tags, the rest of a frame that a tag
 * seems to cover, or the rest of a tag, which is text and zeros. All other formats that begin with bytes of their own are thereby
 * excluded, except those that begin with text; `otherStream` knows these.
 */
const isLead = (file: Uint8Array, start: number, first: number): boolean => {
  let at = start
  while (at < first && file[at] === 0) at++
  if (at === first || mpegFrameAt(file, at) !== undefined) return true
  // Decoders search behind a tag in an invalid form, too.
  if (["ID3", "APETAGEX", "TAG"].some((name) => startsWith(file, at, name))) return true
  const covered = start - ID3_HEADER_BYTES
  if (covered >= 0 && covered + (mpegFrameAt(file, covered)?.bytes ?? 0) === first) return true
  return file.subarray(at, first).every((byte) => byte === 0 || (byte >= 0x20 && byte < 0x7f))
}

import { type RiffChunk, chunkAt, dataBytes, startsWith, viewOf } from "@kiln/core/media"
import { areMostlyFrames, followFrames, type FramesFound } from "../codecs/mpegFrames.ts"
import { burstsInSamples, isPacketStream, probedWindows, signatureIn, streamInSamples } from "../codecs/otherStream.ts"
import { type Measurement, unreadable } from "../Measurement.ts"
import { afterId3 } from "../mp3/measureMp3.ts"
import type { Walk, Work } from "../Work.ts"
import { readSampleFormat, type SampleFormat } from "./sampleFormat.ts"

/** Packets of samples, and their bytes, by which decoders choose the codec. */
const PROBED_PACKETS = 32
const PACKET_BYTES = 4_096

/** Bytes in which decoders look for bursts of a digital link, whatever chunks they belong to. */
const PROBED_BURST_BYTES = 65_536

/** Data chunks; files of recorders have one, and at most a few. */
const MAX_PIECES = 64

/** The chunks of a file that matter. */
interface Wave {
  format: SampleFormat | undefined
  formats: number
  /** Length of the data as 64-bit forms state it; 0 in others. */
  readonly longBytes: number
  /** Content of the data chunks, by offset. */
  readonly pieces: Map<number, Uint8Array>
  /** Whether a chunk of odd length ends where another one seems to begin. */
  isUneven: boolean
  isSupported: boolean
}

/**
 * Measures a WAVE file: the samples that are present in all data chunks. Decoders play the last chunk, or the first and those after
 * it. Includes RF64 and BW64, which are RIFF with 64-bit lengths.
 */
export function* measureWav(file: Uint8Array, work: Work): Walk<Measurement> {
  const start = yield* afterId3(file, work)
  // Decoders take it for another format then, by what the samples look like.
  if (isLongForm(file, start) && !startsWith(file, start + 12, "ds64")) return unreadable("wav: no 64-bit lengths")
  let wave = yield* readWave(file, start, true, work)
  // Some writers do not pad chunks.
  if (wave.pieces.size === 0 && wave.isUneven) wave = yield* readWave(file, start, false, work)
  const { format } = wave
  if (wave.pieces.size === 0) return unreadable("wav: no audio data")
  if (wave.pieces.size > MAX_PIECES) return unreadable("wav: too many data chunks")
  if (format === undefined || !wave.isSupported) return unreadable("wav: missing, invalid or unsupported sample format")
  const pieces = [...wave.pieces.values()]
  const windows = probedWindows(file)
  const window = windows[windows.length - 1] ?? file
  const stream =
    (isAct(window) ? "ACT" : undefined) ??
    signatureIn(window) ??
    ((yield* isPacketStream(windows, work)) ? "MPEG-TS" : undefined) ??
    (format.pcmBits > 0 ? yield* streamIn(file, wave, format, work) : undefined)
  if (stream !== undefined) return unreadable(`wav: ${stream} instead of samples`)
  if (format.isMpeg) return yield* measureFrames(pieces, work)
  let samples = 0
  for (const { length } of pieces)
    samples +=
      Math.floor(length / format.blockBytes) * format.samplesIn(format.blockBytes) +
      Math.max(0, format.samplesIn(length % format.blockBytes))
  return { seconds: samples / format.sampleRate }
}

const isLongForm = (file: Uint8Array, start: number): boolean => !startsWith(file, start, "RIFF")

/** Returns the length of the data in the first chunk of a 64-bit form. Above 2^53 it is rounded, which is past any end. */
const statedBytes = (file: Uint8Array, start: number): number =>
  start + 36 > file.length
    ? 0
    : viewOf(file).getUint32(start + 32, true) * 2 ** 32 + viewOf(file).getUint32(start + 28, true)

/** Returns whether decoders take a file for one of a dictation device, whose speech follows a header of a WAVE file. */
const isAct = (file: Uint8Array): boolean =>
  file.length >= 512 &&
  startsWith(file, 0, "RIFF") &&
  startsWith(file, 16, "\x10\0\0\0") &&
  file[256] === 0x84 &&
  isZero(file.subarray(44, 256)) &&
  isZero(file.subarray(264, 512))

const isZero = (bytes: Uint8Array): boolean => bytes.every((byte) => byte === 0)

/** Finds compressed frames from the beginning of each data chunk, because decoders differ in which they play first. */
function* streamIn(file: Uint8Array, wave: Wave, format: SampleFormat, work: Work): Walk<string | undefined> {
  const pieces = [...wave.pieces.values()]
  for (const [index, from] of [...wave.pieces.keys()].entries()) {
    const bytes = PROBED_PACKETS * Math.max(PACKET_BYTES, format.blockBytes)
    const stream =
      (yield* burstsInSamples(file.subarray(from, from + PROBED_BURST_BYTES), work)) ??
      (format.pcmBits === 16 ? yield* streamInSamples(firstBytes(pieces.slice(index), bytes), file, work) : undefined)
    if (stream !== undefined) return stream
  }
  return undefined
}

/**
 * Follows the chunks of the file that begins at `start`. Chunks begin at even offsets from there. Decoders that look for data
 * behind data do not know that, so both ways are followed from there.
 */
function* readWave(file: Uint8Array, start: number, isPadded: boolean, work: Work): Walk<Wave> {
  const wave: Wave = {
    format: undefined,
    formats: 0,
    longBytes: isLongForm(file, start) ? statedBytes(file, start) : 0,
    pieces: new Map(),
    isUneven: false,
    isSupported: true,
  }
  const ways = [start + 12]
  for (const way of ways) {
    let chunk = chunkAt(file, way)
    while (chunk !== undefined && wave.pieces.size <= MAX_PIECES) {
      if (work.spend(0.5)) yield
      if (wave.pieces.has(chunk.body)) break
      let next = chunk.body + readChunk(file, wave, chunk)
      if ((next - start) % 2 === 1) {
        if (chunk.name === "data") ways.push(next)
        wave.isUneven ||= isName(file, next)
        if (isPadded || !isName(file, next)) next++
      }
      chunk = chunkAt(file, next)
    }
  }
  return wave
}

/** Reads a chunk and returns its length. */
const readChunk = (file: Uint8Array, wave: Wave, { body, bytes, name }: RiffChunk): number => {
  switch (name) {
    case "fmt ":
      if (wave.pieces.size > 0) return bytes
      wave.format = readSampleFormat(file, body, bytes)
      // Decoders differ in which of several they use.
      wave.isSupported &&= wave.formats++ === 0
      return bytes
    case "data": {
      // Decoders that go by the 64-bit length find chunks inside a longer one.
      wave.isSupported &&=
        wave.format !== undefined && (wave.longBytes === 0 || bytes <= wave.longBytes || bytes === 0xffff_ffff)
      const samples = dataBytes(file, body, bytes, wave.longBytes)
      wave.pieces.set(body, file.subarray(body, body + samples.bytes))
      return samples.bytes
    }
    case "XMA2":
    case "SMV0": // Decoders read these instead.
      wave.isSupported = false
      return bytes
    default:
      return bytes
  }
}

const isName = (file: Uint8Array, at: number): boolean =>
  file.subarray(at, at + 4).every((byte) => byte >= 0x20 && byte < 0x7f)

/** Returns the first bytes of the pieces together. */
const firstBytes = (pieces: ReadonlyArray<Uint8Array>, bytes: number): Uint8Array => {
  const [first = new Uint8Array()] = pieces
  if (pieces.length === 1 || first.length >= bytes) return first.subarray(0, bytes)
  const all = new Uint8Array(bytes)
  let length = 0
  for (const piece of pieces) {
    const part = piece.subarray(0, bytes - length)
    all.set(part, length)
    length += part.length
    if (length === bytes) break
  }
  return all.subarray(0, length)
}

function* measureFrames(pieces: ReadonlyArray<Uint8Array>, work: Work): Walk<Measurement> {
  let sum: FramesFound = { seconds: 0, frames: 0, frameBytes: 0, strayBytes: 0 }
  for (const piece of pieces) {
    const found = yield* followFrames(piece, 0, piece.length, work)
    sum = {
      seconds: sum.seconds + found.seconds,
      frames: sum.frames + found.frames,
      frameBytes: sum.frameBytes + found.frameBytes,
      strayBytes: sum.strayBytes + found.strayBytes,
    }
  }
  return areMostlyFrames(sum) ? { seconds: sum.seconds } : unreadable("wav: no frames")
}

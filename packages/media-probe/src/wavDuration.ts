import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { type FrameTally, secondsFound, tallyFrames } from "./frameTally.ts"
import { type Measurement, unreadable } from "./Measurement.ts"
import { RawDisguise } from "./rawDisguise.ts"
import { readWavFormat, type WavFormat } from "./wavFormat.ts"

// Placeholders for a length that a live writer does not know.
const unknownLengths = new Set([0, 0xffff_ffff])

/** Number of bytes sufficient for any supported format. */
const MAX_FORMAT_BYTES = 40

/** Number of consecutive frames from which on decoders treat raw samples as MPEG. */
const MPEG_RUN = 7
const ADTS_RUN = 3

/** State of the scan. */
interface Wave {
  format: WavFormat | undefined
  formats: number
  /** Length of the data as stated by 64-bit formats. */
  longDataBytes: number
  isLong: boolean
  /** True after a data chunk. */
  hasData: boolean
  dataBytes: number
  frameSeconds: number
  hasRuns: boolean
  readonly disguise: RawDisguise
}

/**
 * Measures a WAVE file: the audio bytes present in all data chunks, divided by the bytes per second of the format.
 * Includes RF64 and BW64, which are RIFF with 64-bit lengths.
 */
export function* wavDuration(cursor: ByteCursor): Scan<Measurement> {
  const wave: Wave = {
    format: undefined,
    formats: 0,
    longDataBytes: 0,
    isLong: (yield* cursor.need(12)) && cursor.ascii(0, 4) !== "RIFF",
    hasData: false,
    dataBytes: 0,
    frameSeconds: 0,
    hasRuns: false,
    disguise: new RawDisguise(),
  }
  yield* cursor.skip(12)
  while (yield* cursor.need(8)) {
    const id = cursor.ascii(0, 4)
    // Bytes after the audio that do not form a chunk count as audio, because some decoders ignore the stated length.
    if (wave.hasData && !/^[ -~]{4}$/.test(id)) {
      yield* readData(cursor, wave, Infinity)
      break
    }
    const bytes = cursor.u32(4, true)
    yield* cursor.skip(8)
    // Chunks begin at even offsets.
    const padding = bytes % 2
    if (id === "data") {
      wave.hasData ||= wave.format === undefined || wave.formats > 1
      if (wave.format === undefined || wave.formats > 1) break
      yield* readData(cursor, wave, dataLength(wave, bytes))
      yield* cursor.skip(cursor.position % 2)
    } else yield* cursor.skip(bytes + padding - (yield* readHeader(cursor, wave, id, bytes)))
  }
  return conclude(wave)
}

const conclude = (wave: Wave): Measurement => {
  const { format } = wave
  if (wave.hasData && (format === undefined || wave.formats > 1))
    return unreadable("wav: missing, invalid or unsupported sample format")
  if (format === undefined || !wave.hasData) return unreadable("wav: no audio data")
  if (format.isRaw && (wave.hasRuns || wave.disguise.isFound))
    return unreadable("wav: compressed frames instead of plain samples")
  if (format.isMpeg) return wave.frameSeconds > 0 ? { seconds: wave.frameSeconds } : unreadable("wav: no frames")
  const samples = (wave.dataBytes / format.blockBytes) * format.blockSamples
  return { seconds: samples / format.sampleRate }
}

/** Returns the stated length of the data. Of two sizes the larger counts, because decoders differ in which they use. */
const dataLength = (wave: Wave, bytes: number): number => {
  const long = wave.isLong && !wave.hasData ? wave.longDataBytes : 0
  if (!unknownLengths.has(bytes)) return Math.max(bytes, long)
  return long > 0 ? long : Infinity
}

/** Reads relevant chunks, and returns the number of bytes read. */
function* readHeader(cursor: ByteCursor, wave: Wave, id: string, bytes: number): Scan<number> {
  if (id === "ds64" && bytes >= 16 && (yield* cursor.need(16))) wave.longDataBytes = cursor.u64(8, true)
  if (id !== "fmt " || wave.hasData) return 0
  const formatBytes = Math.min(bytes, MAX_FORMAT_BYTES)
  wave.formats++
  if (formatBytes >= 16 && (yield* cursor.need(formatBytes))) wave.format = readWavFormat(cursor, formatBytes)
  return 0
}

function* readData(cursor: ByteCursor, wave: Wave, bytes: number): Scan<void> {
  if (!wave.hasData && wave.format?.isRaw) cursor.watch((seen) => wave.disguise.see(seen))
  wave.hasData = true
  const tally = yield* tallyFrames(cursor, bytes)
  wave.dataBytes += tally.bytes
  wave.frameSeconds += secondsFound(tally, "mpeg")
  wave.hasRuns ||= hasRuns(tally)
}

const hasRuns = ({ adts, mpeg }: FrameTally): boolean => mpeg.longestRun >= MPEG_RUN || adts.longestRun >= ADTS_RUN

import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { type Measurement, unreadable } from "./Measurement.ts"

/** Every MPEG sample rate divides it, so that sums of frames stay whole numbers and their order does not matter. */
const FLICKS_PER_SECOND = 705_600_000

/** Bytes that may lie before the first frame, tags not counted. */
const MAX_LEADING_GARBAGE = 65_536

/** One frame's header, as far as it says how long the frame lasts. */
interface Frame {
  readonly bytes: number
  readonly samples: number
  readonly sampleRate: number
  /** Bytes between the header and the main data. */
  readonly sideInfoBytes: number
  /** The bits that do not change between frames of one stream: version, layer and sample rate. */
  readonly kind: number
}

/**
 * Length of an MP3: its whole frames, counted. What a Xing header says is not asked: it stays the same when the file is
 * cut, and anybody can write it.
 */
export function* mp3Duration(cursor: ByteCursor): Scan<Measurement> {
  let kind: number | undefined
  let flicks = 0
  let frames = 0
  let garbage = 0
  yield* skipTags(cursor)
  while (cursor.available >= 4 || (yield* cursor.need(4))) {
    const frame = frameAt(cursor, 0)
    if (frame !== undefined && (frame.kind === kind || (yield* isRunOfFrames(cursor)))) {
      kind = frame.kind
      const silent = frames === 0 && (yield* isInfoFrame(cursor, frame))
      if ((yield* cursor.skip(frame.bytes)) < frame.bytes) break
      frames++
      if (!silent) flicks += frame.samples * (FLICKS_PER_SECOND / frame.sampleRate)
      continue
    }
    kind = undefined
    garbage += cursor.seek(0xff)
    if (frames === 0 && garbage > MAX_LEADING_GARBAGE) break
  }
  return frames === 0 ? unreadable("mp3: no frames") : { seconds: flicks / FLICKS_PER_SECOND }
}

/** ID3v2 tags lie before the audio, one after the other. */
function* skipTags(cursor: ByteCursor): Scan<void> {
  while ((yield* cursor.need(10)) && cursor.ascii(0, 3) === "ID3") {
    const hasFooter = (cursor.u8(5) & 0x10) !== 0
    let bytes = 0
    for (let i = 6; i < 10; i++) bytes = bytes * 128 + (cursor.u8(i) & 0x7f)
    yield* cursor.skip(10 + bytes + (hasFooter ? 10 : 0))
  }
}

/** Whether three frames of one kind follow each other, or fewer up to the end of the file: four bytes alone look like a header too often. */
function* isRunOfFrames(cursor: ByteCursor): Scan<boolean> {
  let offset = 0
  let kind: number | undefined
  for (let count = 0; count < 3; count++) {
    if (!(yield* cursor.need(offset + 4))) return count > 0 && cursor.available >= offset
    const frame = frameAt(cursor, offset)
    if (frame === undefined || frame.kind !== (kind ?? frame.kind)) return false
    kind = frame.kind
    offset += frame.bytes
  }
  return true
}

/** Whether the first frame carries an encoder's table of contents in place of sound; decoders leave it out. */
function* isInfoFrame(cursor: ByteCursor, frame: Frame): Scan<boolean> {
  if (frame.bytes < 40 || !(yield* cursor.need(40))) return false
  return ["Xing", "Info"].includes(cursor.ascii(4 + frame.sideInfoBytes, 4)) || cursor.ascii(36, 4) === "VBRI"
}

// kbit/s of layer III by the index in the header: MPEG 1, then MPEG 2 and 2.5. Index 0 is the free format, whose frames
// have no stated size.
const bitrates1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
const bitrates2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
const sampleRates1 = [44_100, 48_000, 32_000]

/** The layer III frame header at `offset`, of which four bytes are at hand. */
const frameAt = (cursor: ByteCursor, offset: number): Frame | undefined => {
  const kindByte = cursor.u8(offset + 1)
  if (cursor.u8(offset) !== 0xff || (kindByte & 0xe6) !== 0xe2) return undefined
  const version = (kindByte >> 3) & 3
  const rates = cursor.u8(offset + 2)
  const isMpeg1 = version === 3
  const bitrate = (isMpeg1 ? bitrates1 : bitrates2)[rates >> 4]
  const baseRate = sampleRates1[(rates >> 2) & 3]
  if (version === 1 || !bitrate || baseRate === undefined) return undefined
  const sampleRate = isMpeg1 ? baseRate : version === 2 ? baseRate / 2 : baseRate / 4
  const samples = isMpeg1 ? 1152 : 576
  const padding = (rates >> 1) & 1
  const isMono = cursor.u8(offset + 3) >> 6 === 3
  return {
    bytes: Math.floor(((samples / 8) * bitrate * 1000) / sampleRate) + padding,
    samples,
    sampleRate,
    sideInfoBytes: isMpeg1 ? (isMono ? 17 : 32) : isMono ? 9 : 17,
    kind: (kindByte & 0xfe) * 256 + (rates & 0x0c),
  }
}

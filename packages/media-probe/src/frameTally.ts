import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { type FrameHeader, frameHeaderAt, HEADER_BYTES } from "./frameHeader.ts"

/** Divisible by every MPEG and AAC sample rate, 7,350 Hz too, so that sums of frames are integers and independent of their order. */
const FLICKS_PER_SECOND = 705_600_000

/** Number of consecutive frames of one kind that rules out coincidence. */
const RUN_FRAMES = 3

/** Seconds of frames that arbitrary bytes contain by chance: about 11 headers per MiB. */
const CHANCE_SECONDS = 1
const CHANCE_SECONDS_PER_MIB = 20

/** Seconds of headers within the payload of frames, per second of frames. Some of it is systematic: encoder tables of speech reach 0.75. */
const PAYLOAD_CHANCE = 1.5

/** Totals of the frames of one codec. */
interface Found {
  /** Duration of consecutive frames. */
  flicks: number
  /** Duration of isolated headers between consecutive frames. */
  strayFlicks: number
  /** Duration of headers within consecutive frames. */
  innerFlicks: number
  frames: number
  /** Bytes of consecutive frames. */
  frameBytes: number
  /** Length of the longest sequence without a gap. */
  longestRun: number
}

export interface FrameTally {
  readonly bytes: number
  readonly mpeg: Found
  readonly adts: Found
}

interface Phase {
  readonly header: FrameHeader
  readonly end: number
  readonly run: number
}

/**
 * Counts the MPEG audio frames (all layers and versions) and the ADTS frames in the next `bytes` bytes, and moves past
 * them. Consecutive frames count. Isolated headers between or inside such frames are counted separately, because decoders
 * play them: garbage after every frame, or frames hidden in the payload of larger ones, must not make a recording appear
 * short. The search for the first frame ends after `giveUpBytes`.
 */
export function* tallyFrames(cursor: ByteCursor, bytes: number, giveUpBytes = Infinity): Scan<FrameTally> {
  const start = cursor.position
  const tally: FrameTally = { bytes: 0, mpeg: noneFound(), adts: noneFound() }
  let phase: Phase | undefined
  while (cursor.position - start < bytes && (cursor.available >= HEADER_BYTES || (yield* cursor.need(HEADER_BYTES)))) {
    const at = cursor.position
    if (tally.mpeg.frames === 0 && phase === undefined && at - start > giveUpBytes) break
    const header = cursor.u8(0) === 0xff ? frameHeaderAt(cursor, 0) : undefined
    if (phase !== undefined && at >= phase.end) phase = leave(tally, phase, at, header)
    if (header !== undefined) {
      const isNext = phase?.end === at && header.kind === phase.header.kind
      const isSure = isNext || ((phase === undefined || at >= phase.end) && (yield* beginsRun(cursor, header)))
      if (isSure) phase = { header, end: at + header.bytes, run: isNext ? (phase?.run ?? 0) + 1 : 1 }
      else if (phase !== undefined && at < phase.end) tally[header.codec].innerFlicks += flicksOf(header)
      else tally[header.codec].strayFlicks += flicksOf(header)
      if (isSure && tally.mpeg.frames === 0 && header.codec === "mpeg" && (yield* isInfoFrame(cursor, header)))
        phase = phase && { ...phase, header: { ...header, samples: 0 } }
    }
    cursor.seek(0xff, start + bytes - at)
  }
  yield* cursor.skip(Math.min(start + bytes - cursor.position, cursor.available))
  // A truncated frame does not play.
  if (phase !== undefined && cursor.position >= phase.end) count(tally, phase)
  return { ...tally, bytes: cursor.position - start }
}

/** Records a complete frame. The bytes after it tell whether the sequence continues. */
const leave = (tally: FrameTally, phase: Phase, at: number, header: FrameHeader | undefined): Phase | undefined => {
  count(tally, phase)
  return at === phase.end && header?.kind === phase.header.kind ? phase : undefined
}

const count = (tally: FrameTally, phase: Phase): void => {
  const found = tally[phase.header.codec]
  found.frames++
  found.flicks += flicksOf(phase.header)
  found.frameBytes += phase.header.bytes
  found.longestRun = Math.max(found.longestRun, phase.run)
}

const noneFound = (): Found => ({ flicks: 0, strayFlicks: 0, innerFlicks: 0, frames: 0, frameBytes: 0, longestRun: 0 })

const flicksOf = (header: FrameHeader): number => header.samples * (FLICKS_PER_SECOND / header.sampleRate)

/** Returns the seconds of the frames of one codec, plus those of isolated headers that exceed coincidence. */
export const secondsFound = (tally: FrameTally, codec: FrameHeader["codec"]): number => {
  const { flicks, innerFlicks, strayFlicks } = tally[codec]
  const gapBytes = tally.bytes - tally.mpeg.frameBytes - tally.adts.frameBytes
  const gapChance = CHANCE_SECONDS + (CHANCE_SECONDS_PER_MIB * gapBytes) / 2 ** 20
  const payloadChance = CHANCE_SECONDS * FLICKS_PER_SECOND + PAYLOAD_CHANCE * (tally.mpeg.flicks + tally.adts.flicks)
  const hidden = Math.max(0, strayFlicks - gapChance * FLICKS_PER_SECOND) + Math.max(0, innerFlicks - payloadChance)
  return (flicks + hidden) / FLICKS_PER_SECOND
}

/** Returns the seconds of consecutive frames of one codec. */
export const secondsInRuns = (tally: FrameTally, codec: FrameHeader["codec"]): number =>
  tally[codec].flicks / FLICKS_PER_SECOND

/** Returns whether three frames of one kind follow each other, or fewer up to the end of the file. A single header is too common by chance. */
function* beginsRun(cursor: ByteCursor, first: FrameHeader): Scan<boolean> {
  let offset = first.bytes
  for (let frames = 1; frames < RUN_FRAMES; frames++) {
    if (!(yield* cursor.need(offset + HEADER_BYTES))) return cursor.available >= offset
    if (cursor.u8(offset) !== 0xff) return false
    const next = frameHeaderAt(cursor, offset)
    if (next?.kind !== first.kind) return false
    offset += next.bytes
  }
  return true
}

/** Returns whether the first frame carries an encoder's table of contents instead of sound; decoders skip it. */
function* isInfoFrame(cursor: ByteCursor, header: FrameHeader): Scan<boolean> {
  if (header.bytes < 40 || !(yield* cursor.need(40))) return false
  return ["Xing", "Info"].includes(cursor.ascii(4 + header.sideInfoBytes, 4)) || cursor.ascii(36, 4) === "VBRI"
}

import type { ByteCursor, Scan } from "./ByteCursor.ts"
import { type FrameHeader, frameHeaderAt, HEADER_BYTES } from "./frameHeader.ts"

/** Every MPEG and AAC sample rate divides it, 7,350 Hz too, so that sums of frames stay whole numbers and their order does not matter. */
const FLICKS_PER_SECOND = 705_600_000

/** As many frames of one kind that follow each other are no chance. */
const RUN_FRAMES = 3

/** Headers that arbitrary bytes hold by chance, as seconds of frames: about 11 a MiB. */
const CHANCE_SECONDS = 1
const CHANCE_SECONDS_PER_MIB = 20

/** Headers in the payload of frames, as seconds for each second these play. Encoders' tables are no chance: speech has up to 0.75. */
const PAYLOAD_CHANCE = 1.5

/** What was found of the frames of one codec. */
interface Found {
  /** Of frames that follow each other. */
  flicks: number
  /** Of headers that stand alone, between the frames that follow each other. */
  strayFlicks: number
  /** Of headers within such frames. */
  innerFlicks: number
  frames: number
  /** Bytes of the frames that follow each other. */
  frameBytes: number
  /** The longest sequence without a gap. */
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
 * them. Frames count that follow each other; headers that stand alone, between such frames or inside of them, are counted
 * apart, because decoders play them: garbage after every frame, or frames hidden in the payload of larger ones, must not
 * make a recording short. `giveUpBytes`: how far to look for the first frame.
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
  // Of a frame that is cut nothing plays.
  if (phase !== undefined && cursor.position >= phase.end) count(tally, phase)
  return { ...tally, bytes: cursor.position - start }
}

/** A frame has passed, as a whole. What begins where it ends says whether the sequence goes on. */
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

/** Seconds of the frames of one codec, and of those headers that stand alone and are more than chance explains. */
export const secondsFound = (tally: FrameTally, codec: FrameHeader["codec"]): number => {
  const { flicks, innerFlicks, strayFlicks } = tally[codec]
  const gapBytes = tally.bytes - tally.mpeg.frameBytes - tally.adts.frameBytes
  const gapChance = CHANCE_SECONDS + (CHANCE_SECONDS_PER_MIB * gapBytes) / 2 ** 20
  const payloadChance = CHANCE_SECONDS * FLICKS_PER_SECOND + PAYLOAD_CHANCE * (tally.mpeg.flicks + tally.adts.flicks)
  const hidden = Math.max(0, strayFlicks - gapChance * FLICKS_PER_SECOND) + Math.max(0, innerFlicks - payloadChance)
  return (flicks + hidden) / FLICKS_PER_SECOND
}

/** Seconds of the frames of one codec that follow each other. */
export const secondsInRuns = (tally: FrameTally, codec: FrameHeader["codec"]): number =>
  tally[codec].flicks / FLICKS_PER_SECOND

/** Whether three frames of one kind follow each other, or fewer up to the end of the file: one header alone is met too often. */
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

/** Whether the first frame carries an encoder's table of contents in place of sound; decoders leave it out. */
function* isInfoFrame(cursor: ByteCursor, header: FrameHeader): Scan<boolean> {
  if (header.bytes < 40 || !(yield* cursor.need(40))) return false
  return ["Xing", "Info"].includes(cursor.ascii(4 + header.sideInfoBytes, 4)) || cursor.ascii(36, 4) === "VBRI"
}

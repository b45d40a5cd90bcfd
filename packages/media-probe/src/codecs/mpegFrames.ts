import { limits } from "@kiln/core/domain"
import { type MpegFrame, mpegFrameAt, tagEnd } from "@kiln/core/media"
import type { Walk, Work } from "../Work.ts"

/** The frames that a decoder finds in a range of bytes. */
export interface FramesFound {
  readonly seconds: number
  readonly frames: number
  /** Bytes of the frames, with their headers. */
  readonly frameBytes: number
  /** Bytes that are neither frames that play nor tags nor zeros, without a last frame that is cut short. */
  readonly strayBytes: number
}

/** Divisible by every sample rate, so that sums are integers. */
const TICKS_PER_SECOND = 14_112_000

/** Stray bytes per byte in a range that rule out a recording: more than 10 %, and more than what remains of a tag or of cut frames. */
const MAX_STRAY = 0.1
const MAX_STRAY_BYTES = 4_096

const SLICE_BYTES = 16_384

/** Returns whether frames make up most of their range; otherwise it holds something else, or too much of it does not play. */
export const areMostlyFrames = ({ frameBytes, strayBytes }: FramesFound): boolean =>
  frameBytes > 0 && strayBytes <= Math.max(MAX_STRAY * (frameBytes + strayBytes), Math.min(frameBytes, MAX_STRAY_BYTES))

/**
 * Follows the MPEG audio frames from `from` to `to` as ffmpeg's parser does: from frame to frame by their lengths. Where no frame
 * follows, it continues at the next header, whose own frame does not play, unless only zeros and tags lie between. Each frame may
 * be of another kind than the one before. Stops early once frames can no longer make up most of the range, or last too long.
 */
export function* followFrames(file: Uint8Array, from: number, to: number, work: Work): Walk<FramesFound> {
  let [ticks, frames, frameBytes, strayBytes] = [0, 0, 0, 0]
  let at = from
  let tagsEnd = from
  let last = from
  let lastRate = Infinity
  let isReached = true
  while (at + 4 <= to && strayBytes <= Math.max(MAX_STRAY * (to - from), MAX_STRAY_BYTES)) {
    const frame = mpegFrameAt(file, at)
    if (frame !== undefined) {
      if (work.spend(1)) yield
      const end = at + frame.bytes
      if (end > to) break
      if (isReached && isPlayable(file, at, frame)) {
        // ffmpeg plays the first frame at another rate at the rate of the frame before.
        ticks += frame.samples * (TICKS_PER_SECOND / Math.min(frame.sampleRate, lastRate))
        lastRate = frame.sampleRate
        frames++
        frameBytes += frame.bytes
        if (ticks > 2 * limits.maxMeasuredSeconds * TICKS_PER_SECOND) break
      } else strayBytes += Math.max(0, end - Math.max(at, tagsEnd))
      isReached = true
      last = at
      at = end
    } else if (file[at] === 0) {
      at = yield* afterZeros(file, at, to, work)
    } else {
      if (at >= tagsEnd) tagsEnd = yield* afterAllTags(file, tagWithin(file, last, at) ?? at, to, work)
      last = at
      const next = yield* nextHeader(file, at + 1, to, tagsEnd, work)
      isReached = next === tagsEnd
      strayBytes += Math.max(0, next - Math.max(at, tagsEnd))
      at = next
    }
  }
  return { seconds: ticks / TICKS_PER_SECOND, frames, frameBytes, strayBytes }
}

function* afterZeros(file: Uint8Array, from: number, to: number, work: Work): Walk<number> {
  for (let at = from; ;) {
    const begin = at
    const sliceEnd = Math.min(at + SLICE_BYTES, to)
    while (at < sliceEnd && file[at] === 0) at++
    if (work.spend(1 + (at - begin) / 1024)) yield
    if (at < sliceEnd || at === to) return at
  }
}

/** Returns the offset of a tag that begins before the frame from `from` to `to` is complete, as behind a recording that is cut. */
const tagWithin = (file: Uint8Array, from: number, to: number): number | undefined => {
  for (let at = from; at < to; at++) if (tagEnd(file, at) > to) return at
  return undefined
}

/** Returns the offset after consecutive tags, with the zeros that pad them. */
export function* afterAllTags(file: Uint8Array, from: number, to: number, work: Work): Walk<number> {
  for (let at = from; ;) {
    if (work.spend(1)) yield
    const end = Math.min(to, tagEnd(file, at))
    const next = end === at ? at : yield* afterZeros(file, end, to, work)
    if (next === at) return at
    at = next
  }
}

/** Returns the offset of the next bytes that look like a header or, behind the known tags, like a tag; `to` without any. */
function* nextHeader(file: Uint8Array, from: number, to: number, tagsEnd: number, work: Work): Walk<number> {
  if (work.spend(1)) yield
  for (let at = from; ;) {
    const sliceEnd = Math.min(at + SLICE_BYTES, to - 3)
    for (; at < sliceEnd; at++) {
      const byte = file[at]
      if (byte === 0x49 || byte === 0x54 || byte === 0x41) {
        if (at >= tagsEnd && tagEnd(file, at) > at) return at
        continue
      }
      if (byte !== 0xff || (file[at + 1] ?? 0) < 0xe0) continue
      const rates = file[at + 2] ?? 0
      if (rates >= 0x10 && rates < 0xf0 && (rates & 0x0c) !== 0x0c) return at
    }
    if (work.spend(SLICE_BYTES / 1024)) yield
    if (at >= to - 3) return to
  }
}

/** Returns whether decoders accept the side information of a frame of layer III. They drop a frame with an impossible granule. */
const isPlayable = (file: Uint8Array, at: number, { layer, samples, sideInfoBytes }: MpegFrame): boolean => {
  if (layer !== 3) return true
  const isMpeg1 = samples === 1152
  const isMono = sideInfoBytes === (isMpeg1 ? 17 : 9)
  const hasCrc = ((file[at + 1] ?? 0) & 1) === 0
  const granules = (isMpeg1 ? 2 : 1) * (isMono ? 1 : 2)
  const granuleBits = isMpeg1 ? 59 : 63
  let bit = (at + (hasCrc ? 6 : 4)) * 8 + (isMpeg1 ? (isMono ? 18 : 20) : isMono ? 9 : 10)
  for (let granule = 0; granule < granules; granule++) {
    const bigValues = bitsAt(file, bit + 12, 9)
    const window = bitsAt(file, bit + (isMpeg1 ? 33 : 38), 3)
    // A window that switches, but to the long type.
    if (bigValues > 288 || window === 0b100) return false
    bit += granuleBits
  }
  return true
}

const bitsAt = (file: Uint8Array, bit: number, count: number): number => {
  const byte = bit >> 3
  const word = ((file[byte] ?? 0) << 16) | ((file[byte + 1] ?? 0) << 8) | (file[byte + 2] ?? 0)
  return (word >> (24 - (bit & 7) - count)) & ((1 << count) - 1)
}

/** Consecutive frames from the start by which decoders recognize MPEG audio. */
const SURE_FRAMES = 7

/** Zeros before the first frame that are skipped. */
const MAX_ZEROS = 1_048_576

/** Returns the offset of the seventh frame, if decoders recognize MPEG audio from `from` on; zeros may come first. */
export const sureFrame = (file: Uint8Array, from: number): number | undefined => {
  let at = from
  while (file[at] === 0 && at < from + MAX_ZEROS) at++
  for (let frames = 1; ; frames++) {
    const frame = mpegFrameAt(file, at)
    if (frame === undefined || repeatsHeader(file, at, frame)) return undefined
    if (frames === SURE_FRAMES) return at
    at += frame.bytes
  }
}

/** Compares the channel mode and the bits that stay the same in one stream: copyright, original and emphasis. */
export const isSameMode = (file: Uint8Array, at: number, other: number): boolean =>
  (((file[at + 3] ?? 0) ^ (file[other + 3] ?? 0)) & 0xcf) === 0

/** Returns whether a frame contains its own header several times, as samples of a steady signal do. */
const repeatsHeader = (file: Uint8Array, at: number, { bytes, kind }: MpegFrame): boolean => {
  const end = Math.min(at + bytes, file.length - 3)
  let repetitions = 0
  for (let other = at + 4; other < end; other++)
    if (file[other] === 0xff && mpegFrameAt(file, other)?.kind === kind && isSameMode(file, at, other)) repetitions++
  return repetitions > 2
}

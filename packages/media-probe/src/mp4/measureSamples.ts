import { limits } from "@kiln/core/domain"
import { viewOf } from "@kiln/core/media"
import { followAc3 } from "../codecs/ac3Frame.ts"
import type { AacConfig } from "../codecs/aacConfig.ts"
import { AacFrames } from "../codecs/aacFrame.ts"
import { flacFrameSeconds, mayBeFlacFrame } from "../codecs/flacFrame.ts"
import { followFrames } from "../codecs/mpegFrames.ts"
import { opusPacketMs } from "../codecs/opusPacket.ts"
import { unreadable } from "../Measurement.ts"
import type { Walk, Work } from "../Work.ts"
import type { Samples } from "./Samples.ts"
import type { SoundCodec } from "./soundCodec.ts"
import { isZero, SLICE_BYTES, SLICE_STEPS } from "./zeros.ts"

/** The part of a duration that may be hidden in samples that are not as they should be. */
const MAX_HIDDEN = 0.04

/** Returns the duration in seconds of the frames in some samples. Throws if they are not frames of this codec. */
export function* measureSamples(file: Uint8Array, codec: SoundCodec, samples: Samples, work: Work): Walk<number> {
  switch (codec.type) {
    case "blocks":
      return ((samples.bytes / codec.bytes) * codec.samples) / codec.sampleRate
    case "aac":
      return yield* aacSeconds(file, codec.config, samples, work)
    case "mpeg":
      return yield* mpegSeconds(file, samples, work)
    case "alac":
      return yield* packetSeconds(samples, work, (from, to) => alacSeconds(viewOf(file), from, to, codec))
    case "opus":
      return yield* packetSeconds(samples, work, (from, to) => {
        const ms = opusPacketMs(file[from] ?? 0, to - from > 1 ? file[from + 1] : undefined)
        return ms === undefined ? undefined : ms / 1000
      })
    case "ac3":
      return yield* ac3Seconds(file, samples, work)
    case "flac":
      return yield* flacSeconds(file, codec.sampleRate, samples, work)
  }
}

/**
 * Adds up the seconds of the samples, each of which is a packet of its own. A few that are damaged count as nothing, because decoders
 * skip them.
 */
function* packetSeconds(
  samples: Samples,
  work: Work,
  secondsAt: (from: number, to: number) => number | undefined,
): Walk<number> {
  let seconds = 0
  let damaged = 0
  let damagedBytes = 0
  for (let index = 0; index < samples.count; index++) {
    if (work.spend(1)) yield
    const from = samples.starts[index] ?? 0
    const to = from + (samples.sizes[index] ?? 0)
    const found = secondsAt(from, to)
    if (found === undefined) {
      damaged++
      damagedBytes += to - from
    } else seconds += found
  }
  if (damaged > MAX_HIDDEN * samples.count || damagedBytes > MAX_HIDDEN * samples.bytes)
    throw unreadable("mp4: samples of another codec than stated")
  return seconds
}

/** AAC of at most this length is parsed as a whole; of more, random samples and those that could hide much. */
const MAX_PARSED_BYTES = 16 * 2 ** 20

/** The part of a duration that a sample which is not parsed may hide. */
const MAX_HIDDEN_BY_ONE = 0.005

/** Huffman codes per step of work. */
const CODES = 16

/** The shortest frame that decoders play. */
const MIN_FRAME_BYTES = 4

/** A sample at the end of a cut file is shorter than this: the largest frame of two channels, about. */
const MAX_CUT_BYTES = 2_048

/** Seconds that may be hidden in any file. */
const HIDDEN_SECONDS = 0.1

/** Measures AAC. Decoders play the frames in one sample one after the other, so each sample has to be exactly one. */
function* aacSeconds(file: Uint8Array, config: AacConfig, samples: Samples, work: Work): Walk<number> {
  const frameSeconds = config.frameSamples / config.sampleRate
  if (!config.mayHoldSeveral) return samples.count * frameSeconds
  const frames = new AacFrames(config)
  const share = Math.min(1, MAX_PARSED_BYTES / samples.bytes)
  const maxSkippedBytes = MAX_HIDDEN_BY_ONE * samples.count * MIN_FRAME_BYTES
  let parsed = 0
  let hidden = 0
  let codes = 0
  for (let index = 0; index < samples.count; index++) {
    if (work.spend(1)) yield
    const from = samples.starts[index] ?? 0
    const to = from + (samples.sizes[index] ?? 0)
    if (share < 1 && to - from < maxSkippedBytes && work.random() > share) continue
    const end = from + (frames.lengthAt(file, from, to) ?? 0)
    parsed++
    // Decoders play nothing of a frame that is cut, and ignore zeros after a frame.
    const isCut = end === from && to === file.length && to - from < MAX_CUT_BYTES
    if (end < to && !isCut && (end === from || !(yield* isZero(file, end, to, work))))
      hidden += Math.floor((to - end) / MIN_FRAME_BYTES)
    if (work.spend(Math.floor((frames.codes - codes) / CODES))) yield
    codes = frames.codes
    if (hidden > MAX_HIDDEN * samples.count && hidden * frameSeconds > HIDDEN_SECONDS)
      throw unreadable("mp4: samples that are not one AAC frame each")
  }
  if (hidden > MAX_HIDDEN * parsed && hidden * frameSeconds > HIDDEN_SECONDS)
    throw unreadable("mp4: samples that are not one AAC frame each")
  return samples.count * frameSeconds
}

/** Copies the samples, one after the other. */
function* joinedSamples(file: Uint8Array, samples: Samples, work: Work): Walk<Uint8Array> {
  const joined = new Uint8Array(samples.bytes)
  let at = 0
  for (let index = 0; index < samples.count; index++) {
    const from = samples.starts[index] ?? 0
    const bytes = samples.sizes[index] ?? 0
    if (work.spend(1 + (bytes >> 10))) yield
    joined.set(file.subarray(from, from + bytes), at)
    at += bytes
  }
  return joined
}

/** Measures MPEG audio, whose frames may begin in one sample and end in the next. */
function* mpegSeconds(file: Uint8Array, samples: Samples, work: Work): Walk<number> {
  const joined = yield* joinedSamples(file, samples, work)
  const found = yield* followFrames(joined, 0, joined.length, work)
  // Beyond the longest recording, frames are not followed to the end. The last one may be cut.
  const isWhole = found.seconds <= limits.maxMeasuredSeconds
  const otherBytes = joined.length - found.frameBytes
  if (found.frames === 0 || (isWhole && otherBytes > MAX_HIDDEN * joined.length + MAX_MPEG_FRAME_BYTES))
    throw unreadable("mp4: samples of another codec than stated")
  return found.seconds
}

const MAX_MPEG_FRAME_BYTES = 2_881

const alacSeconds = (
  view: DataView,
  from: number,
  to: number,
  codec: { readonly maxSamples: number; readonly sampleRate: number },
): number | undefined => {
  if (to - from < 3) return undefined
  // Three bits of the element, of which a channel and a pair have sound, 16 of no interest, and one for a length that follows.
  const element = view.getUint8(from) >> 5
  if (element > 1 && element !== 3) return undefined
  if ((view.getUint8(from + 2) & 0x10) === 0) return codec.maxSamples / codec.sampleRate
  if (to - from < 7) return undefined
  const samples = view.getUint32(from + 2) * 2 ** 7 + (view.getUint8(from + 6) >> 1)
  const stated = samples % 2 ** 32
  return stated === 0 || stated > codec.maxSamples ? undefined : stated / codec.sampleRate
}

/** Measures AC-3, whose frames decoders find wherever they begin in the samples. */
function* ac3Seconds(file: Uint8Array, samples: Samples, work: Work): Walk<number> {
  const joined = yield* joinedSamples(file, samples, work)
  const found = yield* followAc3(joined, work)
  if (found.frames === 0 || found.isSwapped || found.strayBytes > MAX_HIDDEN * joined.length + MAX_AC3_FRAME_BYTES)
    throw unreadable("mp4: samples of another codec than stated")
  return found.seconds
}

const MAX_AC3_FRAME_BYTES = 4_096

/** Steps of work to read a header with its checksum. */
const FLAC_HEADER_STEPS = 3

/** Measures FLAC, whose frames state no length: a header anywhere in a sample may be one that decoders play. */
function* flacSeconds(file: Uint8Array, sampleRate: number, samples: Samples, work: Work): Walk<number> {
  let first = 0
  let further = 0
  for (let index = 0; index < samples.count; index++) {
    const from = samples.starts[index] ?? 0
    const bytes = samples.sizes[index] ?? 0
    const to = from + bytes
    for (let at = from; at < to; at++) {
      if ((at - from) % SLICE_BYTES === 0 && work.spend(SLICE_STEPS)) yield
      if (!mayBeFlacFrame(file, at)) continue
      if (work.spend(FLAC_HEADER_STEPS)) yield
      const found = flacFrameSeconds(file, at, to, sampleRate)
      if (at === from) first += found
      else further += found
    }
  }
  if (first === 0) throw unreadable("mp4: samples of another codec than stated")
  if (further > MAX_HIDDEN * first && further > HIDDEN_SECONDS)
    throw unreadable("mp4: samples that are not one FLAC frame each")
  return first + further
}

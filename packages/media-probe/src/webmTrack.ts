import { opusPacketMs } from "./opusDuration.ts"
import { blockOf, type VorbisModes } from "./vorbisPackets.ts"

/** State of one track. Times are in ticks of `nsPerTick` unless stated otherwise. */
export interface WebmTrack {
  number: number
  isAudio: boolean
  codec: string
  vorbis: VorbisModes | undefined
  /** True if the contents of its blocks are compressed or encrypted. */
  isEncoded: boolean
  defaultNs: number
  firstTick: number | undefined
  lastTick: number
  /** Time between the last two blocks: the assumed duration of the last one if none is stated. */
  lastGap: number
  /** True if no duration is stated for the last block. */
  isGuessed: boolean
  /** End of the part that is known to play. */
  endTick: number
  /** Sum of the durations of its packets, in seconds. */
  packetSeconds: number
  /** Vorbis: number of samples of the previous block. */
  lastBlockSamples: number
}

export const newTrack = (): WebmTrack => ({
  number: 0,
  isAudio: false,
  codec: "",
  vorbis: undefined,
  isEncoded: false,
  defaultNs: 0,
  firstTick: undefined,
  lastTick: 0,
  lastGap: 0,
  isGuessed: false,
  endTick: 0,
  packetSeconds: 0,
  lastBlockSamples: 0,
})

/** Returns whether the durations of its packets can be determined. */
export const isMeasured = (track: WebmTrack): boolean =>
  !track.isEncoded && (track.codec.startsWith("A_OPUS") || (track.codec === "A_VORBIS" && track.vorbis !== undefined))

/** Adds the duration of a packet, read from its first bytes, and returns it in seconds. */
export const addPacket = (track: WebmTrack, first: number, second: number | undefined): number | undefined => {
  const seconds = track.vorbis ? vorbisSeconds(track, track.vorbis, first) : opusSeconds(track, first, second)
  track.packetSeconds += seconds ?? 0
  return seconds
}

const opusSeconds = (track: WebmTrack, first: number, second: number | undefined): number | undefined => {
  const ms = track.codec.startsWith("A_OPUS") ? opusPacketMs(first, second) : undefined
  return ms === undefined ? undefined : ms / 1000
}

/** Returns the duration of a packet. Blocks overlap by half of the shorter one, so a quarter of each of two neighbors plays. */
const vorbisSeconds = (track: WebmTrack, modes: VorbisModes, first: number): number | undefined => {
  const block = blockOf(modes, first)
  if (block === undefined) return undefined
  const samples = modes.blocks[block]
  const played = (track.lastBlockSamples + samples) / 4
  track.lastBlockSamples = samples
  return played / modes.sampleRate
}

export const extend = (track: WebmTrack, tick: number, ticks: number | undefined): void => {
  if (track.firstTick !== undefined && tick > track.lastTick) track.lastGap = tick - track.lastTick
  track.firstTick = Math.min(track.firstTick ?? tick, tick)
  track.lastTick = tick
  track.isGuessed = true
  if (ticks !== undefined) playFor(track, ticks)
}

export const playFor = (track: WebmTrack, ticks: number): void => {
  track.isGuessed = false
  track.endTick = Math.max(track.endTick, track.lastTick + ticks)
}

/** Maximum duration of packets at both ends that may not be played. */
const SPARE_SECONDS = 0.12

/** Returns the time from the first block to the end of the last, or the sum of the packets if longer; `undefined` without blocks. */
export const secondsHeard = (track: WebmTrack, nsPerTick: number): number | undefined => {
  if (track.firstTick === undefined) return undefined
  const end = Math.max(track.endTick, track.lastTick + (track.isGuessed ? track.lastGap : 0))
  // Multiplied first, so that a whole second is not rounded up and billed as two.
  return Math.max(((end - track.firstTick) * nsPerTick) / 1e9, track.packetSeconds - SPARE_SECONDS)
}

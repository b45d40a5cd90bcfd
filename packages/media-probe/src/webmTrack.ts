import { opusPacketMs } from "./opusDuration.ts"
import { blockOf, type VorbisModes } from "./vorbisPackets.ts"

/** What was found of one track. Times are in ticks, of `nsPerTick`, unless they say otherwise. */
export interface WebmTrack {
  number: number
  isAudio: boolean
  codec: string
  vorbis: VorbisModes | undefined
  /** What its blocks hold is packed once more. */
  isEncoded: boolean
  defaultNs: number
  firstTick: number | undefined
  lastTick: number
  /** Between the last two blocks: how long the last one plays, where nothing says it. */
  lastGap: number
  /** Nothing says how long the last block plays. */
  isGuessed: boolean
  /** Of what is known to play. */
  endTick: number
  /** What its packets say that they play, in all. */
  packetSeconds: number
  /** Vorbis: samples of the block before. */
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

/** Whether the length of its packets can be told. */
export const isMeasured = (track: WebmTrack): boolean =>
  !track.isEncoded && (track.codec.startsWith("A_OPUS") || (track.codec === "A_VORBIS" && track.vorbis !== undefined))

/** How long a packet plays, in seconds, by its first bytes; adds it up. */
export const addPacket = (track: WebmTrack, first: number, second: number | undefined): number | undefined => {
  const seconds = track.vorbis ? vorbisSeconds(track, track.vorbis, first) : opusSeconds(track, first, second)
  track.packetSeconds += seconds ?? 0
  return seconds
}

const opusSeconds = (track: WebmTrack, first: number, second: number | undefined): number | undefined => {
  const ms = track.codec.startsWith("A_OPUS") ? opusPacketMs(first, second) : undefined
  return ms === undefined ? undefined : ms / 1000
}

/** Blocks overlap by half of the shorter: of two that follow each other a quarter of both plays. */
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

/** What need not play of the packets at both ends. */
const SPARE_SECONDS = 0.12

/** From the first block to the end of the last, or what the packets hold if that is longer; `undefined` when there are none. */
export const secondsHeard = (track: WebmTrack, nsPerTick: number): number | undefined => {
  if (track.firstTick === undefined) return undefined
  const end = Math.max(track.endTick, track.lastTick + (track.isGuessed ? track.lastGap : 0))
  // Multiplied first: a whole second stays a whole one, and is not billed as the next.
  return Math.max(((end - track.firstTick) * nsPerTick) / 1e9, track.packetSeconds - SPARE_SECONDS)
}

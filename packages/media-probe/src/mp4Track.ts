import { type FrameTally, secondsFound, secondsInRuns } from "./frameTally.ts"
import { SampleMap, type TableBudget } from "./SampleMap.ts"
import type { SoundCodec } from "./soundEntry.ts"

/** What the boxes of one track say. Times are in ticks of the track. */
export interface Mp4Track {
  id: number
  handler: string | undefined
  ticksPerSecond: number
  codec: SoundCodec | "unmeasured" | undefined
  /** The sum of what its samples are said to last. */
  sampleTicks: number
  /** How many samples there are: there are three tables to lie in, and the largest number counts. */
  timedSamples: number
  sizedSamples: number
  chunks: number
  chunkedSamples: number
  lastChunkRow: { readonly first: number; readonly samples: number }
  fragmentSamples: number
  sampleBytes: number
  /** Pieces of the track that the edit list plays, in ticks of the movie. */
  edits: number
  editTicks: number
  readonly map: SampleMap
}

export const newTrack = (budget: TableBudget): Mp4Track => ({
  id: 0,
  handler: undefined,
  ticksPerSecond: 0,
  codec: undefined,
  sampleTicks: 0,
  timedSamples: 0,
  sizedSamples: 0,
  chunks: 0,
  chunkedSamples: 0,
  lastChunkRow: { first: 1, samples: 0 },
  fragmentSamples: 0,
  sampleBytes: 0,
  edits: 0,
  editTicks: 0,
  map: new SampleMap(budget),
})

/** What a decoder takes for sound: what says so, and what is coded as such. */
export const isSound = (track: Mp4Track): boolean => track.handler === "soun" || track.codec !== undefined

/** Opus packets say themselves how long they play, so one must look at them. */
export const hasSamplesToFind = ({ codec }: Mp4Track): boolean => typeof codec === "object" && codec.type === "opus"

export const samplesOf = (track: Mp4Track): number => {
  const { first, samples } = track.lastChunkRow
  const chunked = track.chunkedSamples + Math.max(0, track.chunks + 1 - first) * samples
  return Math.max(track.timedSamples, track.sizedSamples, chunked) + track.fragmentSamples
}

/** Frames that need not play to their end: those before the beginning and the last. */
const SPARE_FRAMES = 2

/** The shortest and the longest Opus packet. */
const MIN_OPUS_SECONDS = 0.0025
const MAX_OPUS_SECONDS = 0.12

/** What lies in the media: bytes, and frames that say themselves what they are. */
export interface Mp4Media {
  bytes: number
  readonly tallies: { mpeg: number; adts: number }
  /** By track, how long its packets play; missing where they were not looked at. */
  readonly opusSeconds: Map<Mp4Track, number>
}

export const addTally = (media: Mp4Media, tally: FrameTally): void => {
  media.tallies.mpeg += secondsFound(tally, "mpeg")
  // Pictures hold more headers than chance explains.
  media.tallies.adts += secondsInRuns(tally, "adts")
}

/**
 * How long a track plays: what its tables say or what its samples hold, whichever is longer, and that again for every time
 * an edit list plays it. Tables can be written by anybody.
 */
export const secondsOf = (track: Mp4Track, codec: SoundCodec, media: Mp4Media, ticksPerMovieSecond: number): number => {
  const stated = track.ticksPerSecond > 0 ? track.sampleTicks / track.ticksPerSecond : 0
  const seconds = Math.max(stated, secondsHeld(track, codec, media))
  const edited = ticksPerMovieSecond > 0 ? track.editTicks / ticksPerMovieSecond : Infinity
  return track.edits > 1 ? Math.max(seconds, Math.min(edited, track.edits * seconds)) : seconds
}

const secondsHeld = (track: Mp4Track, codec: SoundCodec, media: Mp4Media): number => {
  const samples = samplesOf(track)
  switch (codec.type) {
    case "frames": {
      const frames = Math.max(samples, track.sampleBytes / codec.maxFrameBytes) - SPARE_FRAMES
      return Math.max((frames * codec.samples) / codec.sampleRate, codec.mayBeAdts ? media.tallies.adts : 0)
    }
    case "pcm":
      return Math.max(samples, track.sampleBytes / codec.frameBytes) / codec.sampleRate
    case "mpeg":
      // The tables may name the same bytes again and again.
      return media.tallies.mpeg * Math.max(1, track.sampleBytes / media.bytes)
    case "opus":
      return Math.max(samples * MIN_OPUS_SECONDS, (media.opusSeconds.get(track) ?? 0) - MAX_OPUS_SECONDS)
  }
}

import { type FrameTally, secondsFound, secondsInRuns } from "./frameTally.ts"
import { SampleMap, type TableBudget } from "./SampleMap.ts"
import type { SoundCodec } from "./soundEntry.ts"

/** Contents of the boxes of one track. Times are in ticks of the track. */
export interface Mp4Track {
  id: number
  handler: string | undefined
  ticksPerSecond: number
  codec: SoundCodec | "unmeasured" | undefined
  /** Sum of the stated durations of its samples. */
  sampleTicks: number
  /** Number of samples. Three tables state it and any may be forged, so the largest counts. */
  timedSamples: number
  sizedSamples: number
  chunks: number
  chunkedSamples: number
  lastChunkRow: { readonly first: number; readonly samples: number }
  fragmentSamples: number
  sampleBytes: number
  /** Total duration of the pieces that the edit list plays, in ticks of the movie. */
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

/** Returns whether decoders treat the track as sound: by its handler or by its codec. */
export const isSound = (track: Mp4Track): boolean => track.handler === "soun" || track.codec !== undefined

/** Returns whether the packets must be read to measure the track: Opus stores durations in its packets. */
export const hasSamplesToFind = ({ codec }: Mp4Track): boolean => typeof codec === "object" && codec.type === "opus"

export const samplesOf = (track: Mp4Track): number => {
  const { first, samples } = track.lastChunkRow
  const chunked = track.chunkedSamples + Math.max(0, track.chunks + 1 - first) * samples
  return Math.max(track.timedSamples, track.sizedSamples, chunked) + track.fragmentSamples
}

/** Frames that may be played partly: the ones before the beginning, and the last one. */
const SPARE_FRAMES = 2

/** The shortest and the longest Opus packet. */
const MIN_OPUS_SECONDS = 0.0025
const MAX_OPUS_SECONDS = 0.12

/** Contents of the media data: bytes, and self-describing frames. */
export interface Mp4Media {
  bytes: number
  readonly tallies: { mpeg: number; adts: number }
  /** Duration of the packets by track; missing for tracks whose packets were not read. */
  readonly opusSeconds: Map<Mp4Track, number>
}

export const addTally = (media: Mp4Media, tally: FrameTally): void => {
  media.tallies.mpeg += secondsFound(tally, "mpeg")
  // Video contains more frame headers than chance explains.
  media.tallies.adts += secondsInRuns(tally, "adts")
}

/**
 * Returns the duration of a track: as stated by its tables or as held by its samples, whichever is longer (tables can be
 * forged), times the number of times an edit list plays it.
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
      // The tables may name the same bytes repeatedly.
      return media.tallies.mpeg * Math.max(1, track.sampleBytes / media.bytes)
    case "opus":
      return Math.max(samples * MIN_OPUS_SECONDS, (media.opusSeconds.get(track) ?? 0) - MAX_OPUS_SECONDS)
  }
}

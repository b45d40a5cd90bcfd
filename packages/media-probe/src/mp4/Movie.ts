import type { Box } from "@kiln/core/media"
import type { Coverage, Samples } from "./Samples.ts"
import type { SoundCodec } from "./soundCodec.ts"

/** The description of one track, and its samples. */
export interface Track {
  id: number
  handler: string
  ticksPerSecond: number
  /** `undefined` if the track is not sound. */
  codec: SoundCodec | undefined
  /** The boxes of its sample table, by type. */
  readonly tables: Map<string, Box>
  edits: Box | undefined
  readonly samples: Samples
}

/** Values of the samples in a track's fragments that do not state their own. */
export interface Defaults {
  readonly ticks: number
  readonly bytes: number
}

export interface Movie {
  ticksPerSecond: number
  readonly tracks: Array<Track>
  /** By track id. */
  readonly defaults: Map<number, Defaults>
  readonly coverage: Coverage
  /** Bytes of the media data that are present. */
  mediaBytes: number
  /** Bytes outside of the media data that describe nothing. */
  otherBytes: number
}
